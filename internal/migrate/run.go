package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// Ran is a migration that was executed.
type Ran struct {
	Step
	Took time.Duration
}

// Result of a run.
type Result struct {
	Ran    []Ran         // in order; empty when there was nothing to do
	From   int64         // version before
	To     int64         // version after
	Waited time.Duration // for another run
	// MissingRoles are the roles that do not exist, because this database user may not create them.
	// ForeignRoles are those that got no rights here, because they have rights elsewhere or members
	// already.
	MissingRoles, ForeignRoles []string
	// Schema is the outbox's, quoted; Creators are who may create in it, see Creators.
	Schema   string
	Creators []string
}

// Up applies what is pending, up to opts.To.
func Up(ctx context.Context, pool *pgxpool.Pool, opts Options) (res Result, err error) {
	opts = opts.withDefaults()
	known, err := steps(opts.Migrations)
	if err != nil {
		return Result{}, err
	}
	if err := checkServer(ctx, pool, opts); err != nil {
		return Result{}, err
	}
	if err := checkTypes(ctx, pool, opts); err != nil {
		return Result{}, err
	}
	schema, creators, err := Creators(ctx, pool)
	if err != nil {
		return Result{}, err
	}
	defer func() { res.Schema, res.Creators = schema, creators }()
	// Nothing to do needs no lock, and no right to change the schema.
	res, todo, err := survey(ctx, pool, known, opts)
	if err != nil || len(todo) == 0 {
		return res, err
	}
	s, err := openSession(ctx, pool, opts)
	if err != nil {
		return Result{}, err
	}
	defer s.close(ctx)
	waited, err := s.lock(ctx, opts)
	if err != nil {
		return Result{Waited: waited}, err
	}
	// Another run may have done it meanwhile.
	err = s.raw(ctx, func(conn *pgx.Conn) (err error) {
		res, todo, err = survey(ctx, conn, known, opts)
		return err
	})
	res.Waited = waited
	if err != nil || len(todo) == 0 {
		return res, err
	}
	home, err := s.home(ctx)
	if err != nil {
		return res, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, s.db, home.files(opts.Migrations),
		goose.WithTableName(Table),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		return res, fmt.Errorf("read migrations: %w", err)
	}
	for _, step := range todo {
		start := time.Now()
		if err := s.apply(ctx, provider, step, opts); err != nil {
			return res, &PartialError{Applied: res.steps(), Failed: step, Err: err}
		}
		res.Ran = append(res.Ran, Ran{Step: step, Took: time.Since(start)})
		opts.Progress(fmt.Sprintf("applied %s (%s)", step, time.Since(start).Round(time.Millisecond)))
	}
	return res, s.finish(ctx, known, opts, &res)
}

// survey returns where the database stands and what is to do.
func survey(ctx context.Context, db querier, known []Step, opts Options) (Result, []Step, error) {
	applied, err := readApplied(ctx, db)
	if err != nil {
		return Result{}, nil, err
	}
	list := merge(known, applied)
	v := versions(list)
	todo, err := choose(list, opts)
	return Result{From: v.Database, To: v.Database}, todo, err
}

// retryPause is the longest pause between two tries of a migration, each of which has waited for its locks.
const retryPause = 2 * time.Second

// apply runs one migration, again and again while others hold the locks it
// needs. Between tries production has the table to itself.
func (s *session) apply(ctx context.Context, provider *goose.Provider, step Step, opts Options) error {
	deadline := time.Now().Add(opts.RetryFor)
	for try := 1; ; try++ {
		if err := s.prepare(ctx, opts); err != nil {
			return err
		}
		quiet := heartbeat(step, opts)
		_, err := provider.ApplyVersion(ctx, step.Version, true)
		quiet()
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			err = partial.Err
		}
		if err == nil || !IsLockTimeout(err) || time.Now().Add(retryPause).After(deadline) {
			return err
		}
		delay := time.Duration((1 + opts.jitter()) / 2 * float64(retryPause))
		opts.Progress(fmt.Sprintf("%s: another session holds a lock it needs (try %d), again in %s",
			step, try, delay.Round(time.Millisecond)))
		if err := wait.For(ctx, delay); err != nil {
			return err
		}
	}
}

// heartbeat reports now and then that a step is still running: a backfill or an index build takes
// as long as the table is big, or as the oldest transaction is open. The function it returns ends
// it and waits for its end.
func heartbeat(step Step, opts Options) (stop func()) {
	start := time.Now()
	ticker := time.NewTicker(opts.reportEvery)
	ended := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				opts.Progress(fmt.Sprintf("%s is still running (%s); it may be waiting for older transactions, see pg_stat_activity",
					step, time.Since(start).Round(time.Second)))
			}
		}
	})
	return func() {
		ticker.Stop()
		close(ended)
		done.Wait()
	}
}

// finish completes the result.
func (s *session) finish(ctx context.Context, known []Step, opts Options, res *Result) error {
	return s.raw(ctx, func(conn *pgx.Conn) error {
		after, _, err := survey(ctx, conn, known, opts)
		if err != nil {
			return err
		}
		res.To = after.To
		err = conn.QueryRow(ctx, ungrantedRoles, Roles()).Scan(&res.MissingRoles, &res.ForeignRoles)
		if err != nil {
			return fmt.Errorf("look for roles: %w", err)
		}
		return nil
	})
}

// ungrantedRoles lists those of the roles $1 that do not exist, and those that have no rights on
// the events although the step that grants has run.
const ungrantedRoles = `
SELECT coalesce(array_agg(w.name ORDER BY w.ord) FILTER (WHERE r.oid IS NULL), '{}'),
       coalesce(array_agg(w.name ORDER BY w.ord) FILTER (WHERE r.oid IS NOT NULL AND to_regproc('outbox_grant') IS NOT NULL AND NOT EXISTS (
           SELECT FROM pg_shdepend AS d
            WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = r.oid
              AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND d.classid = 'pg_class'::regclass AND d.objid = to_regclass('outbox_events'))), '{}')
  FROM unnest($1::text[]) WITH ORDINALITY AS w(name, ord) LEFT JOIN pg_roles AS r ON r.rolname = w.name`

func (r Result) steps() []Step {
	out := make([]Step, len(r.Ran))
	for i, ran := range r.Ran {
		out[i] = ran.Step
	}
	return out
}

package score

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

const database = "score"

// world is the servers of one scenario.
type world struct {
	*Session
	dir      string
	postgres *devstack.Postgres
	redis    *devstack.Redis // nil unless asked for
	broker   *broker
	pool     *pgxpool.Pool
	random   *rand.Rand
	// databaseURL is what processes get; a scenario may lead it through something.
	databaseURL string

	started int
	closers []func() error
}

// surroundings are what worlds differ in.
type surroundings struct {
	redis bool
	// ordered subscriptions deliver the events of an ordering key in order.
	ordered bool
	// schema is the version to migrate to; zero means the newest.
	schema string
	// postgresEnv goes to the server.
	postgresEnv []string
}

// in runs a scenario in a world and ends the world, whatever happens.
func (s *Session) in(ctx context.Context, around surroundings, f func(*world) (result, error)) (_ result, err error) {
	s.worlds++
	w := &world{Session: s, dir: filepath.Join(s.Dir, fmt.Sprintf("world-%d", s.worlds)), random: rand.New(rand.NewPCG(s.Stamp.Seed, uint64(s.worlds)))}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.open(ctx, around); err != nil {
		return result{}, err
	}
	return f(w)
}

func (w *world) onClose(f func() error) { w.closers = append(w.closers, f) }

// close ends everything, in the reverse order of its start.
func (w *world) close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	if !w.Keep {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

// stopping bounds a server's end.
func (w *world) stopping(stop func(context.Context) error) {
	w.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return stop(ctx)
	})
}

func (w *world) open(ctx context.Context, around surroundings) (err error) {
	if err := errors.Join(os.MkdirAll(w.dir, 0o755), os.Chmod(w.dir, 0o755)); err != nil {
		return err
	}
	params := devstack.PostgresParams{Dir: w.dir, Durable: true, Env: around.postgresEnv}
	if w.postgres, err = devstack.StartPostgres(ctx, params); err != nil {
		return err
	}
	w.stopping(w.postgres.Stop)
	if around.redis {
		if w.redis, err = devstack.StartRedis(ctx, devstack.RedisParams{Dir: w.dir}); err != nil {
			return err
		}
		w.stopping(w.redis.Stop)
	}
	fake, err := devstack.StartPubSub(ctx, devstack.PubSubParams{})
	if err != nil {
		return err
	}
	w.stopping(fake.Stop)
	w.broker = newBroker(fake)
	return w.prepare(ctx, around)
}

// prepare makes the database and the topics with the program itself.
func (w *world) prepare(ctx context.Context, around surroundings) error {
	admin, err := pgxpool.New(ctx, w.postgres.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = admin.Exec(ctx, "CREATE DATABASE "+database)
	admin.Close()
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	w.databaseURL = w.postgres.URL(database)
	up := []string{"migrate"}
	if around.schema != "" {
		up = append(up, "--to", around.schema)
	}
	if _, err := w.command(ctx, up...); err != nil {
		return err
	}
	if _, err := w.command(ctx, "topic", "ensure", fmt.Sprintf("--ordered=%t", around.ordered)); err != nil {
		return err
	}
	if w.pool, err = openPool(ctx, w.postgres.URL(database), 16); err != nil {
		return err
	}
	w.onClose(func() error { w.pool.Close(); return nil })
	return nil
}

func openPool(ctx context.Context, rawURL string, conns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(rawURL)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = conns
	return pgxpool.NewWithConfig(ctx, cfg)
}

// env is what every outboxctl gets; of the caller's environment nothing but the path.
func (w *world) env(more ...string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "OUTBOXCTL_ACTOR=scoreboard", "OUTBOXCTL_LOG_FORMAT=json",
		"OUTBOXCTL_DATABASE_URL=" + w.databaseURL,
		"OUTBOXCTL_PUBSUB_PROJECT=" + w.broker.Project, "OUTBOXCTL_PUBSUB_EMULATOR=" + w.broker.Addr(),
	}
	if w.redis != nil {
		env = append(env, "OUTBOXCTL_REDIS_URL="+w.redis.URL())
	}
	return append(env, more...)
}

// count runs a query that counts.
func (w *world) count(ctx context.Context, query string, args ...any) (n int, err error) {
	if err := w.pool.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count: %w", err)
	}
	return n, nil
}

// settled waits until nothing is pending and nothing leased.
func (w *world) settled(ctx context.Context, patience time.Duration) error {
	err := eventually(ctx, patience, func() (bool, error) {
		n, err := w.count(ctx, `SELECT count(*) FROM (SELECT FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL LIMIT 1) AS pending`)
		return n == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the outbox to be empty: %w", err)
	}
	return nil
}

func withHost(raw, host string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err) // our own servers' URLs parse
	}
	u.Host = host
	return u.String()
}

func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err) // our own servers' URLs parse
	}
	return u.Host
}

func passwordOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err) // our own servers' URLs parse
	}
	password, _ := u.User.Password()
	return password
}

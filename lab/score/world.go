package score

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const database = "score"

// world is the servers of one scenario. Its methods are steps: see rig.Carry.
type world struct {
	rig.World
	session *Session
	ledger  *ledger
	pool    *pgxpool.Pool
	random  *rand.Rand
	// databaseURL is what processes get; a scenario may lead it through something.
	databaseURL string
}

// surroundings are what worlds differ in.
type surroundings struct {
	// schema is the version to migrate to; zero means the newest.
	schema string
	// postgresEnv goes to the server.
	postgresEnv []string
}

// in runs a scenario in a world and ends the world, whatever happens.
func (s *Session) in(ctx context.Context, around surroundings, f func(*world) result) (r result) {
	s.worlds++
	w := &world{session: s, ledger: newLedger(), random: rand.New(rand.NewPCG(s.Stamp.Seed,
		uint64(s.worlds)))}
	w.Dir, w.Program = filepath.Join(s.Dir, fmt.Sprintf("world-%d", s.worlds)), s.Program
	err := rig.Carry(func() {
		w.open(ctx, around)
		r = f(w)
	})
	err = errors.Join(err, w.Close())
	if !s.Keep {
		err = errors.Join(err, os.RemoveAll(w.Dir))
	}
	rig.Check(err)
	return r
}

// open starts the servers and makes the database and the topics with the program itself.
func (w *world) open(ctx context.Context, around surroundings) {
	rig.StateDir(w.Dir)
	w.StartPostgres(ctx, devstack.PostgresParams{Dir: w.Dir, Durable: true, Env: around.postgresEnv})
	w.StartBroker(ctx, rig.NewBroker(rand.New(rand.NewPCG(w.session.Stamp.Seed, 0)),
		w.ledger.answered))
	w.ledger.forget = w.Broker.Forget
	w.databaseURL = w.CreateDatabase(ctx, w.Postgres, database)
	up := []string{"migrate"}
	if around.schema != "" {
		up = append(up, "--to", around.schema)
	}
	w.command(ctx, up...)
	w.command(ctx, "topic", "ensure", "--ordered=false")
	w.pool = w.Pool(ctx, w.databaseURL, 16)
}

func (w *world) env(more ...string) []string {
	return w.Env(w.databaseURL, append([]string{"OUTBOXCTL_LOG_FORMAT=json"}, more...)...)
}

// start runs outboxctl until it ends or the world does.
func (w *world) start(name string, env []string, args ...string) *rig.Process {
	return w.Start(name, w.env(env...), w.Program, args...)
}

// publish starts a publisher that serves no HTTP.
func (w *world) publish(name string, args ...string) *rig.Process {
	return w.start(name, nil, append([]string{"publish", "--http-addr", "127.0.0.1:0"}, args...)...)
}

// publishers starts several and waits until all of them are publishing.
func (w *world) publishers(ctx context.Context, n int, args ...string) (all []*rig.Process) {
	for i := range n {
		all = append(all, w.publish(fmt.Sprintf("publisher-%d", i+1), args...))
	}
	for _, p := range all {
		rig.Await(ctx, 30*time.Second, p.Name+" to publish", func() bool {
			if !p.Alive() {
				rig.Check(fmt.Errorf("%s has ended", p.Name))
			}
			return p.Said(`"message":"publishing"`) > 0
		})
	}
	return all
}

// owner is the id under which a publisher leases rows, once it has said so.
func owner(ctx context.Context, p *rig.Process) (id string) {
	name := regexp.MustCompile(`"publisher":"([0-9a-f-]{36})"`)
	rig.Await(ctx, 20*time.Second, p.Name+" to name itself", func() bool {
		if m := name.FindSubmatch(p.Log()); m != nil {
			id = string(m[1])
		}
		return id != ""
	})
	return id
}

// command runs outboxctl to its end, which must be a success, and returns what it printed.
func (w *world) command(ctx context.Context, args ...string) string {
	return w.Outboxctl(ctx, w.env(), args...)
}

func (w *world) count(ctx context.Context, query string, args ...any) (n int) {
	if err := w.pool.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		rig.Check(fmt.Errorf("count: %w", err))
	}
	return n
}

// settled waits until nothing is pending and nothing leased.
func (w *world) settled(ctx context.Context, patience time.Duration) {
	rig.Await(ctx, patience, "the outbox to be empty", func() bool {
		return w.count(ctx, `SELECT count(*) FROM (SELECT FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL LIMIT 1) AS pending`) == 0
	})
}

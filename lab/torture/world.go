package torture

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
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	outboxDatabase = "torture"
	effectDatabase = "effects"

	exampleConsumer = "compliance"
	workerConsumer  = "redis-guarded"
	domainTopic     = "pf-domain-events"
	exampleSub      = "pf-domain-events-sub"
	workerSub       = "torture-redis-guarded"
)

// world is everything a run happens in.
type world struct {
	cfg Config
	rec *history.Recorder

	postgres *devstack.Postgres // the outbox's: crashes, lies about the time
	effects  *devstack.Postgres // the consumers': never touched
	redis    *devstack.Redis
	broker   *brokerRig
	cutter   *rig.Cutter
	// scriptCutter is for the few and slow transactions of the command line: it cuts more of them.
	scriptCutter *rig.Cutter

	truth   *pgxpool.Pool // on the outbox's database, for the harness
	outcome *pgxpool.Pool // on the consumers' database
	// skew is how far the outbox's database is ahead of us.
	skew time.Duration

	// networks by who uses them for what: publisher-1/postgres, publisher-1/broker, consumers/redis.
	networks map[string]*network
	// publishers and consumers, by name.
	publishers map[string]*process
	consumers  map[string]*process
	http       map[string]string // address of each one's metrics

	closers []func() error
}

// newWorld starts the servers and prepares the databases. What was started is in closers even when it fails.
func newWorld(ctx context.Context, cfg Config, rec *history.Recorder) (*world, error) {
	w := &world{cfg: cfg, rec: rec, networks: map[string]*network{}, publishers: map[string]*process{}, consumers: map[string]*process{}, http: map[string]string{}}
	for _, step := range []func(context.Context) error{w.startServers, w.prepareDatabases, w.prepareTopics, w.openNetworks, w.startProcesses} {
		if err := step(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

// random is a source of chance of its own for each use, so that one's draws do not depend on the others' timing.
func (w *world) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(w.cfg.Seed, stream)) }

func (w *world) onClose(f func() error) { w.closers = append(w.closers, f) }

// close ends everything, in the reverse order of its start.
func (w *world) close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	return errors.Join(errs...)
}

func (w *world) startServers(ctx context.Context) (err error) {
	stop := func(f func(context.Context) error) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			return f(ctx)
		}
	}
	settings := map[string]string{"shared_buffers": "256MB", "checkpoint_timeout": "30s", "log_min_messages": "fatal"}
	params := devstack.PostgresParams{Dir: filepath.Join(w.cfg.Dir, "outbox"), Durable: true, Settings: settings}
	if w.cfg.FakeTime != "" {
		// Ten minutes, as far as clocks of machines in one network have been seen apart; before or behind, as the seed says.
		sign := "+"
		if w.cfg.Seed%2 == 1 {
			sign = "-"
		}
		params.Env = []string{"LD_PRELOAD=" + w.cfg.FakeTime, "FAKETIME=" + sign + "600s", "FAKETIME_DONT_FAKE_MONOTONIC=1"}
	}
	if w.postgres, err = devstack.StartPostgres(ctx, params); err != nil {
		return err
	}
	w.onClose(stop(w.postgres.Stop))
	if w.effects, err = devstack.StartPostgres(ctx, devstack.PostgresParams{Dir: filepath.Join(w.cfg.Dir, "effects")}); err != nil {
		return err
	}
	w.onClose(stop(w.effects.Stop))
	if w.redis, err = devstack.StartRedis(ctx, devstack.RedisParams{Dir: w.cfg.Dir}); err != nil {
		return err
	}
	w.onClose(stop(w.redis.Stop))
	fake, err := devstack.StartPubSub(ctx, devstack.PubSubParams{})
	if err != nil {
		return err
	}
	w.onClose(stop(fake.Stop))
	w.broker = newBroker(fake, w.rec, w.random(1))
	return nil
}

// prepareDatabases migrates both with the program under test and adds the harness's own tables.
func (w *world) prepareDatabases(ctx context.Context) (err error) {
	if w.truth, err = w.database(ctx, w.postgres, outboxDatabase, truthSchema); err != nil {
		return err
	}
	if w.outcome, err = w.database(ctx, w.effects, effectDatabase, effectSchema); err != nil {
		return err
	}
	w.skew, err = clockSkew(ctx, w.truth)
	return err
}

func (w *world) database(ctx context.Context, server *devstack.Postgres, name, schema string) (*pgxpool.Pool, error) {
	admin, err := pgxpool.New(ctx, server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	_, err = admin.Exec(ctx, "CREATE DATABASE "+name)
	admin.Close()
	if err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	migrate := shell{program: w.cfg.Program, env: w.env(server.URL(name)), rec: w.rec}
	if c := migrate.run(ctx, "", "", "migrate"); c.Exit != 0 {
		return nil, fmt.Errorf("migrate %s: %s", name, c.Stderr)
	}
	// The harness writes and reads also while the database is read-only for all others.
	pool, err := pgxpool.New(ctx, withParams(server.URL(name), "application_name", "harness", "default_transaction_read_only", "off"))
	if err != nil {
		return nil, err
	}
	w.onClose(func() error { pool.Close(); return nil })
	if _, err := pool.Exec(ctx, schema); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	return pool, nil
}

// clockSkew asks several times and believes the quickest answer.
func clockSkew(ctx context.Context, pool *pgxpool.Pool) (skew time.Duration, err error) {
	best := time.Hour
	for range 20 {
		var theirs time.Time
		before := time.Now()
		if err := pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&theirs); err != nil {
			return 0, fmt.Errorf("read the database's clock: %w", err)
		}
		if took := time.Since(before); took < best {
			best, skew = took, theirs.Sub(before.Add(took/2))
		}
	}
	return skew, nil
}

func (w *world) openNetworks(context.Context) error {
	open := func(name, upstream string) error {
		n, err := newNetwork(name, upstream)
		if err != nil {
			return err
		}
		w.networks[name] = n
		w.onClose(func() error { n.close(); return nil })
		return nil
	}
	for i := range publishers {
		if err := errors.Join(
			open(publisherName(i)+"/postgres", hostOf(w.postgres.URL(""))),
			open(publisherName(i)+"/broker", w.broker.Addr()),
		); err != nil {
			return err
		}
	}
	if err := open("consumers/redis", hostOf(w.redis.URL())); err != nil {
		return err
	}
	var err error
	if w.cutter, err = rig.NewCutter(hostOf(w.postgres.URL("")), 0.03, w.random(2)); err != nil {
		return err
	}
	w.onClose(func() error { w.cutter.Close(); return nil })
	if w.scriptCutter, err = rig.NewCutter(hostOf(w.postgres.URL("")), 0.3, w.random(5)); err != nil {
		return err
	}
	w.onClose(func() error { w.scriptCutter.Close(); return nil })
	return nil
}

func publisherName(i int) string { return fmt.Sprintf("publisher-%d", i+1) }

// env is what every outboxctl of the run gets; nothing of the caller's environment but the path.
func (w *world) env(databaseURL string, more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.cfg.Dir, "OUTBOXCTL_ACTOR=operator",
		"OUTBOXCTL_DATABASE_URL=" + databaseURL, "OUTBOXCTL_REDIS_URL=" + w.redis.URL(),
		"OUTBOXCTL_PUBSUB_PROJECT=" + w.broker.Project, "OUTBOXCTL_PUBSUB_EMULATOR=" + w.broker.Addr(),
	}, more...)
}

func (w *world) startProcesses(context.Context) error {
	for i := range publishers {
		name := publisherName(i)
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		env := w.env(
			withParams(w.networks[name+"/postgres"].through(w.postgres.URL(outboxDatabase)), "application_name", name),
			"OUTBOXCTL_PUBSUB_EMULATOR="+w.networks[name+"/broker"].addr(),
		)
		p, err := startProcess(w.rec, w.cfg.Dir, name, env, w.cfg.Program, "publish", "--http-addr", addr,
			"--lease", lease.String(), "--publish-timeout", publishTimeout.String(), "--shutdown-timeout", shutdownTimeout.String(),
			"--backoff-base", backoffBase.String(), "--backoff-max", backoffMax.String(), "--poll-interval", pollInterval.String())
		if err != nil {
			return err
		}
		w.publishers[name], w.http[name] = p, addr
	}
	return w.startConsumers()
}

func (w *world) startConsumers() error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	redis := "OUTBOXCTL_REDIS_URL=" + w.networks["consumers/redis"].through(w.redis.URL())
	p, err := startProcess(w.rec, w.cfg.Dir, exampleConsumer, w.env(w.effects.URL(effectDatabase), redis),
		w.cfg.Program, "consume", "--example", "--consumer", exampleConsumer, "--http-addr", addr)
	if err != nil {
		return err
	}
	w.consumers[exampleConsumer], w.http[exampleConsumer] = p, addr
	p, err = startProcess(w.rec, w.cfg.Dir, workerConsumer, w.env(w.effects.URL(effectDatabase), redis, "TORTURE_SUBSCRIPTION="+workerSub), w.cfg.Worker...)
	if err != nil {
		return err
	}
	w.consumers[workerConsumer] = p
	return nil
}

// processes are all of them.
func (w *world) processes() []*process {
	var all []*process
	for _, p := range w.publishers {
		all = append(all, p)
	}
	for _, p := range w.consumers {
		all = append(all, p)
	}
	return all
}

func parsed(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err) // our own servers' URLs parse
	}
	return u
}

func hostOf(raw string) string { return parsed(raw).Host }

func withHost(raw, host string) string {
	u := parsed(raw)
	u.Host = host
	return u.String()
}

func withParams(raw string, pairs ...string) string {
	u := parsed(raw)
	q := u.Query()
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// freeAddr is an address that is not listened on at the moment. A process keeps it over its restarts, so that it can be asked
// for its metrics.
func freeAddr() (string, error) {
	port, err := devstack.FreePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
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

// world is everything a run happens in. Its Postgres is the outbox's: it crashes, and lies about
// the time.
type world struct {
	rig.World
	cfg Config
	rec *history.Recorder

	effects *devstack.Postgres // the consumers': never touched
	cutter  *rig.Cutter
	// scriptCutter is for the few and slow transactions of the command line: it cuts more of them.
	scriptCutter *rig.Cutter

	truth   *pgxpool.Pool // on the outbox's database, for the harness
	outcome *pgxpool.Pool // on the consumers' database
	// skew is how far the outbox's database is ahead of us.
	skew time.Duration

	// networks by who uses them for what: publisher-1/postgres, publisher-1/broker, consumers/redis.
	networks map[string]*toxiproxy.Proxy
	// processes are the publishers and the consumers, by name.
	processes map[string]*process
	http      map[string]string // address of each one's metrics
	redis     *redis.Client
}

// newWorld starts the servers and prepares the databases. What was started is to be closed even
// when it fails.
func newWorld(ctx context.Context, cfg Config, rec *history.Recorder) (*world, error) {
	w := &world{
		World: rig.World{Dir: cfg.Dir, Program: cfg.Program}, cfg: cfg, rec: rec,
		networks: map[string]*toxiproxy.Proxy{}, processes: map[string]*process{}, http: map[string]string{},
	}
	return w, rig.Carry(func() {
		w.startServers(ctx)
		w.truth = w.database(ctx, w.Postgres, outboxDatabase, truthSchema)
		w.outcome = w.database(ctx, w.effects, effectDatabase, effectSchema)
		w.skew = clockSkew(ctx, w.truth)
		w.prepareTopics(ctx)
		w.openNetworks()
		w.startProcesses()
	})
}

// random is a source of chance of its own for each use, so that one's draws do not depend on the
// others' timing.
func (w *world) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(w.cfg.Seed, stream)) }

func (w *world) startServers(ctx context.Context) {
	settings := map[string]string{"shared_buffers": "256MB", "checkpoint_timeout": "30s",
		"log_min_messages": "fatal"}
	params := devstack.PostgresParams{Dir: filepath.Join(w.Dir, "outbox"), Durable: true,
		Settings: settings}
	if w.cfg.FakeTime != "" {
		// Ten minutes, as far as clocks of machines in one network have been seen apart; before or
		// behind, as the seed says.
		sign := "+"
		if w.cfg.Seed%2 == 1 {
			sign = "-"
		}
		params.Env = []string{"LD_PRELOAD=" + w.cfg.FakeTime, "FAKETIME=" + sign + "600s",
			"FAKETIME_DONT_FAKE_MONOTONIC=1"}
	}
	w.StartPostgres(ctx, params)
	w.effects = w.StartPostgres(ctx, devstack.PostgresParams{Dir: filepath.Join(w.Dir, "effects")})
	w.StartRedis(ctx)
	w.redis = redis.NewClient(rig.Must(redis.ParseURL(w.Redis.URL())))
	w.OnClose(w.redis.Close)
	b := rig.NewBroker(w.random(1), w.record)
	b.Front = w.cfg.Broker
	w.StartBroker(ctx, b)
}

// database makes one, migrates it with the program under test and adds the harness's own tables.
func (w *world) database(ctx context.Context, server *devstack.Postgres, name, schema string) *pgxpool.Pool {
	url := w.CreateDatabase(ctx, server, name)
	w.shell(url).do(ctx, "migrate")
	// The harness writes and reads also while the database is read-only for all others.
	pool := w.Pool(ctx, rig.WithParams(url, "application_name", "harness",
		"default_transaction_read_only", "off"), 0)
	rig.Must(pool.Exec(ctx, schema))
	return pool
}

// clockSkew asks several times and believes the quickest answer.
func clockSkew(ctx context.Context, pool *pgxpool.Pool) (skew time.Duration) {
	best := time.Hour
	for range 20 {
		var theirs time.Time
		before := time.Now()
		rig.Check(pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&theirs))
		if took := time.Since(before); took < best {
			best, skew = took, theirs.Sub(before.Add(took/2))
		}
	}
	return skew
}

func (w *world) openNetworks() {
	open := func(name, upstream string) {
		server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
		proxy := toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)
		rig.Check(proxy.Start())
		w.networks[name] = proxy
		w.OnClose(func() error { proxy.Stop(); return nil })
	}
	for i := range publishers {
		open(publisherName(i)+"/postgres", rig.HostOf(w.Postgres.URL("")))
		open(publisherName(i)+"/broker", w.Broker.Addr())
	}
	open("consumers/redis", rig.HostOf(w.Redis.URL()))
	cutter := func(share float64, stream uint64) *rig.Cutter {
		c := rig.Must(rig.NewCutter(rig.HostOf(w.Postgres.URL("")), share, w.random(stream)))
		w.OnClose(func() error { c.Close(); return nil })
		return c
	}
	w.cutter, w.scriptCutter = cutter(0.03, 2), cutter(0.3, 5)
}

func publisherName(i int) string { return fmt.Sprintf("publisher-%d", i+1) }

func (w *world) startProcesses() {
	start := func(name string, env []string, args ...string) {
		w.processes[name] = startProcess(w.rec, w.Dir, name, env, args...)
	}
	through := func(network, url string) string { return rig.WithHost(url, w.networks[network].Listen) }
	for i := range publishers {
		name := publisherName(i)
		w.http[name] = freeAddr()
		url := rig.WithParams(through(name+"/postgres", w.Postgres.URL(outboxDatabase)), "application_name", name)
		start(name, w.PublisherEnv(url, w.networks[name+"/broker"].Listen), w.Program, "publish", "--http-addr", w.http[name],
			"--lease", lease.String(), "--publish-timeout", publishTimeout.String(), "--shutdown-timeout", shutdownTimeout.String(),
			"--backoff-base", backoffBase.String(), "--backoff-max", backoffMax.String(), "--poll-interval", pollInterval.String())
	}
	env := w.Env(w.effects.URL(effectDatabase), "OUTBOXCTL_REDIS_URL="+through("consumers/redis", w.Redis.URL()),
		"TORTURE_SUBSCRIPTION="+workerSub)
	w.http[exampleConsumer] = freeAddr()
	start(exampleConsumer, env, w.Program, "consume", "--example", "--consumer", exampleConsumer, "--http-addr", w.http[exampleConsumer])
	start(workerConsumer, env, w.cfg.Worker...)
}

// freeAddr is an address that is not listened on at the moment. A process keeps it over its
// restarts, so that it can be asked for its metrics.
func freeAddr() string { return fmt.Sprintf("127.0.0.1:%d", rig.Must(devstack.FreePort())) }

// prepareTopics makes the topics and leaves two subscriptions: the example's and the worker's.
func (w *world) prepareTopics(ctx context.Context) {
	w.shell(w.Postgres.URL(outboxDatabase)).do(ctx, "topic ensure")
	client := rig.Must(pubsub.Connect(ctx,
		pubsub.Config{Project: w.Broker.Project, Emulator: w.Broker.PubSub.Addr()}))
	defer func() { _ = client.Close() }() // nothing is left to send
	subscriptions := client.PubSub().SubscriptionAdminClient
	rig.Must(subscriptions.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name:               w.subscription(workerSub),
		Topic:              fmt.Sprintf("projects/%s/topics/%s", w.Broker.Project, domainTopic),
		AckDeadlineSeconds: 10,
	}))
	w.allowDeliveries(ctx, subscriptions)
	w.dropUnread(ctx, subscriptions)
}

// allowDeliveries raises the example's limit of deliveries to the most Pub/Sub takes. The fake
// counts the deliveries of all subscriptions together, so ten of a worker that is killed again and
// again would dead-letter what the example never had.
func (w *world) allowDeliveries(ctx context.Context, client *vkit.SubscriptionAdminClient) {
	sub := rig.Must(client.GetSubscription(ctx,
		&pubsubpb.GetSubscriptionRequest{Subscription: w.subscription(exampleSub)}))
	sub.DeadLetterPolicy.MaxDeliveryAttempts = 100
	rig.Must(client.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: sub, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"dead_letter_policy"}},
	}))
}

func (w *world) subscription(id string) string {
	return fmt.Sprintf("projects/%s/subscriptions/%s", w.Broker.Project, id)
}

// dropUnread removes the subscriptions that are not read. The fake walks over every message that
// waits, a hundred times a second and with all others waiting: after ten minutes of them it would
// be what is measured.
func (w *world) dropUnread(ctx context.Context, client *vkit.SubscriptionAdminClient) {
	for sub, err := range client.ListSubscriptions(ctx,
		&pubsubpb.ListSubscriptionsRequest{Project: "projects/" + w.Broker.Project}).All() {
		rig.Check(err)
		name := sub.GetName()
		if name != w.subscription(exampleSub) && name != w.subscription(workerSub) {
			rig.Check(client.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: name}))
		}
	}
}

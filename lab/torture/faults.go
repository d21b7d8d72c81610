package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// reach is how long an armed process has to get to its failpoint.
const reach = 25 * time.Second

// injector carries out a plan.
type injector struct {
	*world
	random   *rand.Rand
	operator *operator

	mu    sync.Mutex
	busy  map[string]*sync.Mutex // one fault at a time per thing
	wait  sync.WaitGroup
	count int
}

// run injects the faults at their times and returns when all are over.
func (in *injector) run(ctx context.Context, faults []planned) {
	start := time.Now()
	for _, f := range faults {
		if !rig.Pause(ctx, time.Until(start.Add(f.at))) {
			break
		}
		in.wait.Go(func() { in.inject(ctx, f) })
	}
	in.wait.Wait()
}

func (in *injector) inject(ctx context.Context, f planned) {
	thing := in.thing(f)
	thing.Lock()
	defer thing.Unlock()
	rec := history.Fault{Kind: f.kind, Target: f.target, Detail: f.detail, From: time.Now()}
	err := in.perform(ctx, f)
	rec.To = time.Now()
	if err != nil {
		rec.Failed = err.Error()
	}
	in.rec.Add(rec)
	in.mu.Lock()
	in.count++
	_, _ = fmt.Fprintf(in.cfg.Log, "fault %d: %s %s %s (%s) %s\n", in.count, f.kind, f.target,
		f.detail, rec.To.Sub(rec.From).Round(time.Millisecond), rec.Failed)
	in.mu.Unlock()
}

// thing is what the fault is done to. Two faults on it at once would make each other's record
// untrue.
func (in *injector) thing(f planned) *sync.Mutex {
	name := f.target
	if name == "" || strings.HasPrefix(f.kind, "network.") {
		name, _, _ = strings.Cut(f.kind, ".")
		if f.target != "" {
			name = f.target
		}
	}
	if f.kind == termPublisher {
		name = "broker" // it needs a slow one
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.busy[name] == nil {
		in.busy[name] = &sync.Mutex{}
	}
	return in.busy[name]
}

func (in *injector) perform(ctx context.Context, f planned) error {
	kind, _, _ := strings.Cut(f.kind, ".")
	switch kind {
	case "publisher":
		return in.harmProcess(ctx, in.publishers[f.target], f)
	case "consumer":
		return in.harmProcess(ctx, in.consumers[f.target], f)
	case "operator":
		done := make(chan error, 1)
		select {
		case in.operator.crashes <- crash{f.detail, done}:
			return <-done
		case <-ctx.Done():
			return ctx.Err()
		}
	case "postgres":
		return in.harmPostgres(ctx, f)
	case "network":
		return in.harmNetwork(ctx, f)
	case "redis":
		return in.harmRedis(ctx, f)
	default:
		return in.harmBroker(ctx, f)
	}
}

func (in *injector) harmProcess(ctx context.Context, p *process, f planned) error {
	switch f.kind {
	case killPublisher, killConsumer:
		return p.kill(ctx)
	case termConsumer:
		p.signal(syscall.SIGTERM)
		return nil
	case termPublisher:
		// Slower than the publisher's patience: what it leaves behind may still be stored.
		in.Broker.Slow(shutdownTimeout + 500*time.Millisecond)
		defer in.Broker.Set(rig.Trouble{})
		rig.Pause(ctx, time.Second)
		p.signal(syscall.SIGTERM)
		rig.Pause(ctx, f.lasts)
		return nil
	case stopPublisher:
		return in.freeze(ctx, p, f.lasts)
	default:
		return in.crash(ctx, p, f.detail)
	}
}

// crash has a process die in a failpoint. An instance that ends otherwise, as one whose servers are
// away when it starts, is followed by another.
func (in *injector) crash(ctx context.Context, p *process, point string) error {
	hit := 1 + in.drawn(8)
	if point == failpoint.DeadLettering {
		hit = 1
	}
	before := p.crashed()
	for deadline := time.Now().Add(2 * reach); time.Now().Before(deadline); {
		done, err := p.armNext(ctx, fmt.Sprintf("%s:crash:%d", point, hit))
		if err != nil {
			return err
		}
		if err := rig.Within(ctx, done, reach); errors.Is(err, context.Canceled) {
			return err
		}
		if p.crashed() > before {
			return nil
		}
	}
	return fmt.Errorf("%s was not reached", point)
}

// freeze makes a zombie: a publisher that stands still between acknowledgement and settlement until
// its rows are another publisher's, and then goes on.
func (in *injector) freeze(ctx context.Context, p *process, lasts time.Duration) error {
	if _, err := p.armNext(ctx, fmt.Sprintf("%s:stop:%d", failpoint.Acknowledged,
		1+in.drawn(8))); err != nil {
		return err
	}
	for deadline := time.Now().Add(reach); !p.standsStill(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not reached", failpoint.Acknowledged)
		}
		if !rig.Pause(ctx, 20*time.Millisecond) {
			break
		}
	}
	rig.Pause(ctx, lasts)
	p.signal(syscall.SIGCONT) // and it lives on
	return nil
}

func (in *injector) drawn(n int) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.random.IntN(n)
}

func (in *injector) harmPostgres(ctx context.Context, f planned) error {
	const ours = "application_name <> 'harness' AND pid <> pg_backend_pid()"
	switch f.kind {
	case restartPostgres:
		return in.Postgres.Restart(context.WithoutCancel(ctx))
	case terminatePostgres:
		_, err := in.truth.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND `+ours+` AND random() < 0.5`)
		return err
	case readonlyPostgres:
		if _, err := in.truth.Exec(ctx,
			`ALTER SYSTEM SET default_transaction_read_only = on`); err != nil {
			return err
		}
		_, err := in.truth.Exec(ctx, `SELECT pg_reload_conf()`)
		rig.Pause(ctx, f.lasts)
		ctx := context.WithoutCancel(ctx)
		if _, reset := in.truth.Exec(ctx,
			`ALTER SYSTEM RESET default_transaction_read_only`); reset != nil {
			return reset
		}
		_, reset := in.truth.Exec(ctx, `SELECT pg_reload_conf()`)
		if err == nil {
			err = reset
		}
		return err
	case xminPostgres:
		return in.hold(ctx, f.lasts, `BEGIN ISOLATION LEVEL REPEATABLE READ`,
			`SELECT count(*) FROM torture_aggregates`)
	default:
		return in.hold(ctx, f.lasts, `BEGIN`, `LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE`)
	}
}

// hold keeps a transaction open after its statements.
func (in *injector) hold(ctx context.Context, lasts time.Duration, statements ...string) error {
	conn, err := in.truth.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	rig.Pause(ctx, lasts)
	_, err = conn.Exec(context.WithoutCancel(ctx), `ROLLBACK`)
	return err
}

func (in *injector) harmNetwork(ctx context.Context, f planned) error {
	n := in.networks[f.target]
	d := disturbance{Stream: f.detail}
	switch f.kind {
	case resetNetwork:
		d.Type, d.Stream, d.Attributes = "reset_peer", "downstream", map[string]any{"timeout": 0}
	case blackholeNetwork:
		d.Type, d.Attributes = "timeout", map[string]any{"timeout": 0} // one way only; nothing is closed
	case latencyNetwork:
		d.Type, d.Attributes = "latency", map[string]any{"latency": 150 + in.drawn(400), "jitter": 100}
	default:
		// The connection ends within a message: after a random number of bytes.
		d.Type, d.Attributes = "limit_data", map[string]any{"bytes": 1 + in.drawn(5000)}
	}
	err := n.add(d)
	rig.Pause(ctx, f.lasts)
	n.clear(context.WithoutCancel(ctx))
	return err
}

func (in *injector) harmRedis(ctx context.Context, f planned) error {
	if f.kind == killRedis {
		if err := in.Redis.Kill(); err != nil {
			return err
		}
		rig.Pause(ctx, f.lasts)
		return in.Redis.Restart(context.WithoutCancel(ctx))
	}
	opts, err := redis.ParseURL(in.Redis.URL())
	if err != nil {
		return err
	}
	client := redis.NewClient(opts)
	defer func() { _ = client.Close() }()
	if f.kind == flushRedis {
		return client.FlushAll(ctx).Err()
	}
	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		return err
	}
	rig.Pause(ctx, f.lasts)
	return client.ConfigSet(context.WithoutCancel(ctx), "maxmemory", "0").Err()
}

func (in *injector) harmBroker(ctx context.Context, f planned) error {
	switch f.kind {
	case awayBroker:
		in.Broker.Disconnect()
		rig.Pause(ctx, f.lasts)
		return in.Broker.Reconnect()
	case lostBroker:
		in.Broker.Set(rig.Trouble{Lost: true, Share: 0.5})
	case slowBroker:
		in.Broker.Set(rig.Trouble{Delay: 1500 * time.Millisecond, Share: 0.7})
	default:
		in.Broker.Set(rig.Trouble{Code: codeNamed(f.detail), Share: 1})
	}
	rig.Pause(ctx, f.lasts)
	in.Broker.Set(rig.Trouble{})
	return nil
}

func codeNamed(name string) codes.Code {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == name {
			return code
		}
	}
	panic("no such code: " + name)
}

package torture

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// reach is how long an armed process has to get to its failpoint.
const reach = 25 * time.Second

// others are the connections that are not the harness's.
const others = "backend_type = 'client backend' AND application_name <> 'harness'"

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
	name, _, _ := strings.Cut(f.kind, ".")
	name = cmp.Or(f.target, name)
	if f.kind == "publisher.term" {
		name = "broker" // it needs a slow one
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.busy[name] == nil {
		in.busy[name] = &sync.Mutex{}
	}
	return in.busy[name]
}

// perform does a fault and returns when it is over.
func (in *injector) perform(ctx context.Context, f planned) error {
	p, after := in.processes[f.target], context.WithoutCancel(ctx)
	switch f.kind {
	case "publisher.kill", "consumer.kill":
		_, err := p.kill(ctx)
		return err
	case "consumer.term":
		p.signal(syscall.SIGTERM)
		return nil
	case "publisher.term":
		// Slower than the publisher's patience: what it leaves behind may still be stored.
		in.Broker.Slow(shutdownTimeout + 500*time.Millisecond)
		defer in.Broker.Set(rig.Trouble{})
		rig.Pause(ctx, time.Second)
		p.signal(syscall.SIGTERM)
		rig.Pause(ctx, f.lasts)
		return nil
	case "publisher.stop":
		return in.freeze(ctx, p, f.lasts)
	case "publisher.crash", "consumer.crash":
		return in.crash(ctx, p, f.detail)
	case "operator.crash":
		return in.operator.crash(ctx, f.detail)
	case "postgres.restart":
		return in.Postgres.Restart(after)
	case "postgres.terminate":
		return execute(ctx, in.truth, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE `+others+` AND pid <> pg_backend_pid() AND random() < 0.5`)
	case "postgres.readonly":
		const reload = `SELECT pg_reload_conf()`
		err := execute(ctx, in.truth, `ALTER SYSTEM SET default_transaction_read_only = on`, reload)
		rig.Pause(ctx, f.lasts)
		return errors.Join(err, execute(after, in.truth, `ALTER SYSTEM RESET default_transaction_read_only`, reload))
	case "postgres.xmin":
		return in.hold(ctx, f.lasts, `BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM torture_aggregates`)
	case "postgres.lock":
		return in.hold(ctx, f.lasts, `BEGIN`, `LOCK TABLE outbox_events IN ACCESS EXCLUSIVE MODE`)
	case "network.reset":
		return in.disturb(ctx, f, "reset_peer", map[string]int{"timeout": 0})
	case "network.blackhole":
		return in.disturb(ctx, f, "timeout", map[string]int{"timeout": 0}) // one way only; nothing is closed
	case "network.latency":
		return in.disturb(ctx, f, "latency", map[string]int{"latency": 150 + in.drawn(400), "jitter": 100})
	case "network.cut":
		// The connection ends within a message: after a random number of bytes.
		return in.disturb(ctx, f, "limit_data", map[string]int{"bytes": 1 + in.drawn(5000)})
	case "redis.kill":
		err := in.Redis.Kill()
		rig.Pause(ctx, f.lasts)
		return errors.Join(err, in.Redis.Restart(after))
	case "redis.flush":
		return in.redis.FlushAll(ctx).Err()
	case "redis.oom":
		err := in.redis.ConfigSet(ctx, "maxmemory", "1").Err()
		rig.Pause(ctx, f.lasts)
		return errors.Join(err, in.redis.ConfigSet(after, "maxmemory", "0").Err())
	case "broker.away":
		in.Broker.Disconnect()
		rig.Pause(ctx, f.lasts)
		return in.Broker.Reconnect()
	case "broker.lost_reply":
		return in.trouble(ctx, f, rig.Trouble{Lost: true, Share: 0.5})
	case "broker.slow":
		return in.trouble(ctx, f, rig.Trouble{Delay: 1500 * time.Millisecond, Share: 0.7})
	case "broker.error":
		return in.trouble(ctx, f, rig.Trouble{Code: codeNamed(f.detail), Share: 1})
	}
	return fmt.Errorf("no such fault: %s", f.kind)
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
	spec := fmt.Sprintf("%s:stop:%d", failpoint.Acknowledged, 1+in.drawn(8))
	if _, err := p.armNext(ctx, spec); err != nil {
		return err
	}
	now, _ := p.present()
	if err := rig.Eventually(ctx, reach, now.StandsStill); errors.Is(err, rig.ErrTimedOut) {
		return fmt.Errorf("%s was not reached", failpoint.Acknowledged)
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

func (in *injector) hold(ctx context.Context, lasts time.Duration, statements ...string) error {
	conn, err := in.truth.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := execute(ctx, conn, statements...); err != nil {
		return err
	}
	rig.Pause(ctx, lasts)
	return execute(context.WithoutCancel(ctx), conn, `ROLLBACK`)
}

type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func execute(ctx context.Context, db executor, statements ...string) error {
	for _, s := range statements {
		if _, err := db.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// disturb has a network go wrong, in the direction that is planned.
func (in *injector) disturb(ctx context.Context, f planned, toxic string, attributes map[string]int) error {
	toxics := in.networks[f.target].Toxics
	text, err := json.Marshal(map[string]any{
		"name": toxic, "type": toxic, "stream": f.detail, "attributes": attributes,
	})
	if err == nil {
		_, err = toxics.AddToxicJson(bytes.NewReader(text))
	}
	rig.Pause(ctx, f.lasts)
	toxics.ResetToxics(context.WithoutCancel(ctx))
	return err
}

func (in *injector) trouble(ctx context.Context, f planned, t rig.Trouble) error {
	in.Broker.Set(t)
	defer in.Broker.Set(rig.Trouble{})
	rig.Pause(ctx, f.lasts)
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

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/dispatch"
	engine "github.com/outboxctl/outboxctl/internal/dispatch"
)

// settleConns is what a publisher's settling pool holds.
const settleConns = engine.DefaultSettlers + 1

// publisher is one dispatcher with the connections of a real one.
type publisher struct {
	claims, settles *pgxpool.Pool
	dispatcher      *engine.Dispatcher
	listener        *engine.Listener
}

// newPublisher wires a dispatcher as outboxctl publish does.
func (r *Trial) newPublisher(ctx context.Context, to dispatch.Publisher, once bool) (_ *publisher, err error) {
	p := &publisher{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	workers := cmp.Or(r.Params.Workers, engine.DefaultWorkers)
	if p.claims, err = r.DB.Open(ctx, "outboxctl bench claim", int32(workers)+2); err != nil {
		return nil, err
	}
	if p.settles, err = r.DB.Open(ctx, "outboxctl bench settle", settleConns); err != nil {
		return nil, err
	}
	// Connecting is not what is measured.
	if err := errors.Join(p.claims.Ping(ctx), p.settles.Ping(ctx)); err != nil {
		return nil, err
	}
	var waker engine.Waker
	if !once && !r.Params.NoWake {
		p.listener = engine.NewListener(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, r.DB.URL) }, r.Meter)
		waker = p.listener
	}
	config := engine.Config{
		BatchSize: r.Params.BatchSize, Workers: workers, Once: once, Names: r.registry.Names(), PublishTimeout: publishTimeout, Lease: lease,
	}
	store := engine.NewSQLStore(p.claims, p.settles, uuid.NewString(), engine.Scope{})
	p.dispatcher, err = engine.New(config, store, engine.Adapt[dispatch.Message, dispatch.Result](to), r.registry, r.Meter, waker)
	return p, err
}

// close gives the connections back; only then has the server counted all they did.
func (p *publisher) close() {
	for _, pool := range []*pgxpool.Pool{p.claims, p.settles} {
		if pool != nil {
			pool.Close()
		}
	}
}

// run publishes until ctx ends or, with once, nothing is left.
func (p *publisher) run(ctx context.Context) error {
	around, stop := context.WithCancel(context.WithoutCancel(ctx))
	var services errgroup.Group
	if p.listener != nil {
		services.Go(func() error { p.listener.Run(around); return nil })
	}
	err := p.dispatcher.Run(ctx)
	stop()
	return errors.Join(err, services.Wait())
}

// DrainInside empties the outbox with publishers inside this process and returns
// the time from their start to the last settle.
func (r *Trial) DrainInside(ctx context.Context) (time.Duration, error) {
	publishers := make([]*publisher, r.Params.Publishers)
	defer func() {
		for _, p := range publishers {
			if p != nil {
				p.close()
			}
		}
	}()
	for i := range publishers {
		var err error
		if publishers[i], err = r.newPublisher(ctx, r.To(), true); err != nil {
			return 0, fmt.Errorf("start publisher: %w", err)
		}
	}
	began := time.Now()
	running, ctx := errgroup.WithContext(ctx)
	for _, p := range publishers {
		running.Go(func() error { return p.run(ctx) })
	}
	if err := running.Wait(); err != nil {
		return 0, fmt.Errorf("drain: %w", err)
	}
	r.Meter.mu.Lock()
	defer r.Meter.mu.Unlock()
	return r.Meter.lastSettle.Sub(began), nil
}

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// The topics of the scratch catalogue. The fake never gets the one of payments.
const (
	ordersTopic  = "orders"
	ordersAt     = "bench-orders" // at the broker
	paymentTopic = "payments"
	aggregate    = "order"
)

// eventType is one of the scratch catalogue's.
type eventType struct {
	name, topic string
	schema      any
}

func order() eventType   { return eventType{"order.created", ordersTopic, "object"} }
func payment() eventType { return eventType{"payment.settled", paymentTopic, "object"} }
func held() eventType    { return eventType{"order.held", ordersTopic, "object"} }
func license() eventType { return eventType{notifications.EventType, ordersTopic, "object"} }

// catalogueOf is a catalogue file. What is JSON is YAML.
func catalogueOf(types []eventType) []byte {
	described, topics := map[string]any{}, map[string]string{}
	for _, t := range types {
		described[t.name] = map[string]any{"topic": t.topic, "aggregate": aggregate, "schema": t.schema}
		topics[t.topic] = "bench-" + t.topic
	}
	return rig.Must(json.Marshal(map[string]any{"outbox": 1, "name": "bench", "topics": topics, "types": described}))
}

const (
	// envelopeBytes is payload_json around an empty list of orders, orderBytes what each order adds,
	// licenseBytes a license event without a reason.
	envelopeBytes = 190
	orderBytes    = 40
	licenseBytes  = 290
)

// data makes one event's, so that its payload_json weighs about payloadBytes.
func data(kind string, payloadBytes int) any {
	if kind == notifications.EventType {
		return map[string]any{"licenseId": uuid.New(), "storeId": uuid.New(), "status": "rejected",
			"reason": strings.Repeat("x", max(1, payloadBytes-licenseBytes))}
	}
	orders := make([]uuid.UUID, max(1, (payloadBytes-envelopeBytes)/orderBytes))
	for i := range orders {
		orders[i] = uuid.New()
	}
	return map[string]any{"checkoutGroupId": uuid.New(), "vendorOrderIds": orders}
}

// event makes one as outbox_emit_many takes it.
func (t *Trial) event() map[string]any {
	kind := t.types[0].name
	if t.retype != nil {
		kind = t.retype()
	}
	e := map[string]any{"event_type": kind, "aggregate_id": uuid.NewString(), "data": data(kind, t.PayloadBytes)}
	if t.Keys > 0 {
		e["ordering_key"] = fmt.Sprint("key/", rand.IntN(t.Keys))
	}
	return e
}

const (
	emitBatch   = 500
	emitWriters = 2
	emitSQL     = `SELECT id FROM outbox_emit_many($1::text::jsonb)`
)

// emit writes a backlog as an application in any language does.
func (t *Trial) emit(ctx context.Context, n int) {
	t.say("%s: emitting %d events", t.Mode, n)
	var left atomic.Int64
	left.Store(int64(n))
	writers, ctx := errgroup.WithContext(ctx)
	for range emitWriters {
		writers.Go(func() error {
			for {
				size := min(emitBatch, left.Add(-emitBatch)+emitBatch)
				if size <= 0 {
					return nil
				}
				events := make([]any, size)
				for i := range events {
					events[i] = t.event()
				}
				if _, err := t.pool.Exec(ctx, emitSQL, string(rig.Must(json.Marshal(events)))); err != nil {
					return err
				}
			}
		})
	}
	rig.Check(writers.Wait())
	t.emitted += n
}

// fill writes rows of a type with further columns: see rig.Fill. Those of the head are not expected
// to arrive.
func (t *Trial) fill(ctx context.Context, rows int, of eventType, columns map[string]string) {
	like := emit.Event{Type: of.name, AggregateType: aggregate, Data: data(of.name, t.PayloadBytes)}
	with := map[string]string{"aggregate_id": "'head/' || ids.id"}
	for name, value := range columns {
		with[name] = value
	}
	rig.Fill(ctx, t.pool, rows, like, with, t.say)
}

const (
	// warmUp is left out of percentiles: the first events meet cold caches.
	warmUp = time.Second
	// maxWriters fit into a server's connections beside the publishers'.
	minWriters, maxWriters = 8, 70
)

// phase is one stretch of a steady run, with its own figures.
type phase struct {
	mu sync.Mutex
	// committed is when each event's transaction was known to be committed.
	committed map[uuid.UUID]time.Time
	began     time.Time
	took      time.Duration
}

// offer commits events at the offered rate for a while, each in a transaction of its own that stays
// open for t.Open.
func (t *Trial) offer(ctx context.Context, lasts time.Duration) *phase {
	n := int(float64(t.Rate) * lasts.Seconds())
	p := &phase{committed: make(map[uuid.UUID]time.Time, n)}
	size := min(max(minWriters, int(1.5*float64(t.Rate)*t.Open.Seconds())), maxWriters)
	pool := rig.Must(openPool(ctx, t.url, size))
	defer pool.Close()
	limiter := rate.NewLimiter(rate.Limit(t.Rate), 1)
	turns := make(chan struct{})
	writers, ctx := errgroup.WithContext(ctx)
	p.began = time.Now()
	writers.Go(func() error {
		defer close(turns)
		for range n {
			if err := limiter.Wait(ctx); err != nil {
				return err
			}
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for writer := range size {
		writers.Go(func() error {
			for range turns {
				e := t.event()
				if own := t.Keys / size; own > 0 {
					// Keys of its own: transactions that overlap have no order.
					e["ordering_key"] = fmt.Sprint("key/", writer, "/", rand.IntN(own))
				}
				var id uuid.UUID
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					err := tx.QueryRow(ctx, emitSQL, string(rig.Must(json.Marshal([]any{e})))).Scan(&id)
					if err == nil && t.Open > 0 && !rig.Pause(ctx, t.Open) {
						err = ctx.Err()
					}
					return err
				})
				if err != nil {
					return err
				}
				now := time.Now()
				p.mu.Lock()
				p.committed[id] = now
				p.mu.Unlock()
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		rig.Check(errors.Join(errors.New("emit at a steady rate"), err))
	}
	p.took = time.Since(p.began)
	t.emitted += n
	return p
}

// latency is that of the events that were committed between two moments of the phase.
func (p *phase) latency(r *recorder, from, to time.Duration) Percentiles {
	return r.latencies(p.committed, func(at time.Time) bool { since := at.Sub(p.began); return since >= from && since < to })
}

// perSecond is the rate at which events were committed.
func (p *phase) perSecond() float64 { return float64(len(p.committed)) / p.took.Seconds() }

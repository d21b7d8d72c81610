package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/builtin"
)

const (
	emitBatch   = 500
	emitWriters = 2
	// envelopeBytes is payload_json around an empty list of orders, orderBytes
	// what each order adds.
	envelopeBytes = 190
	orderBytes    = 40
)

// FillBatch is how many rows one statement fills in.
const FillBatch = 100_000

// Measured is the namespace of the events that must arrive. Those in the way have
// the default one.
const Measured = "bench"

// event makes one whose payload_json weighs about payloadBytes.
func event(payloadBytes int) emit.Event {
	group := uuid.New()
	orders := make([]uuid.UUID, max(1, (payloadBytes-envelopeBytes)/orderBytes))
	for i := range orders {
		orders[i] = uuid.New()
	}
	return emit.Event{
		Type:        builtin.TypeOrderCreated,
		Namespace:   Measured,
		AggregateID: group.String(),
		Data:        builtin.OrderCreated{CheckoutGroupID: group, VendorOrderIDs: orders},
	}
}

// licenseBytes is payload_json of a license event without a reason.
const licenseBytes = 290

// newEvent makes one that suits the run: the example consumer handles licenses only.
func (r *Trial) newEvent() emit.Event {
	if !r.licenses {
		e := event(r.Params.PayloadBytes)
		if r.Params.Installation.Retype != nil {
			r.Params.Installation.Retype(&e)
		}
		if r.Params.Keys > 0 {
			e.OrderingKey = fmt.Sprint("key/", rand.IntN(r.Params.Keys))
		}
		return e
	}
	license := uuid.New()
	return emit.Event{
		Type: builtin.TypeLicenseStatusChanged, Namespace: Measured, AggregateID: license.String(),
		Data: builtin.LicenseStatusChanged{
			LicenseID: license, StoreID: uuid.New(), Status: builtin.LicenseRejected,
			Reason: strings.Repeat("x", max(1, r.Params.PayloadBytes-licenseBytes)),
		},
	}
}

// Emit writes a backlog the way applications do, through the emitter.
func (r *Trial) Emit(ctx context.Context, n int) error {
	emitter := emit.New(r.registry)
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
				events := make([]emit.Event, size)
				for i := range events {
					events[i] = r.newEvent()
				}
				err := pgx.BeginFunc(ctx, r.DB.Pool, func(tx pgx.Tx) error {
					_, err := emitter.EmitAll(ctx, tx, events)
					return err
				})
				if err != nil {
					return err
				}
			}
		})
	}
	return writers.Wait()
}

// fillSQL writes rows without a round trip each. They are valid events: a
// publisher that claims one publishes it.
const fillSQL = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at, attempt_count, next_attempt_at, namespace)
SELECT id, $2::text::event_type_enum, $3::text::aggregate_type_enum, id,
       jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', '2026-01-01T00:00:00Z', 'data', $4::text::jsonb),
       CASE WHEN $5::bool THEN now() - $9::interval * i / $1 END, $6::int, now() + $7::bigint * interval '1 second', $8::text
  FROM (SELECT outbox_uuid_v7() AS id, i FROM generate_series(1, $1::int) AS i) AS ids`

// Filling is what many rows have in common.
type Filling struct {
	EventType string
	Published bool
	// Over is the time over which they were published, up to now.
	Over      time.Duration
	Attempts  int
	DueIn     time.Duration
	Namespace string
}

// Fill writes n rows.
func (r *Trial) Fill(ctx context.Context, n int, f Filling) error {
	aggregate, _, ok := r.registry.Resolve(f.EventType)
	if !ok {
		return fmt.Errorf("fill with unknown type %s", f.EventType)
	}
	data := `{"orderId":"0190a000-0000-7000-8000-000000000001","paymentIntentId":"0190a000-0000-7000-8000-000000000002","amountCents":4200,"settledAt":"2026-01-01T00:00:00Z"}`
	if f.EventType == builtin.TypeOrderCreated {
		data = `{"checkoutGroupId":"0190a000-0000-7000-8000-000000000001","vendorOrderIds":["0190a000-0000-7000-8000-000000000002","0190a000-0000-7000-8000-000000000003","0190a000-0000-7000-8000-000000000004","0190a000-0000-7000-8000-000000000005","0190a000-0000-7000-8000-000000000006"]}`
	}
	for done := 0; done < n; {
		size := min(FillBatch, n-done)
		_, err := r.DB.Pool.Exec(ctx, fillSQL, size, f.EventType, aggregate, data, f.Published, f.Attempts, int64(f.DueIn.Seconds()), f.Namespace, f.Over)
		if err != nil {
			return fmt.Errorf("fill the outbox: %w", err)
		}
		done += size
		if done < n {
			r.Params.Progress("filled %d of %d rows", done, n)
		}
	}
	return nil
}

// settleDown gives the planner figures of the table as it is now. An outbox in
// use has been analysed; one filled a moment ago has not.
func (r *Trial) settleDown(ctx context.Context) error {
	if _, err := r.DB.Pool.Exec(ctx, `ANALYZE outbox_events`); err != nil {
		return fmt.Errorf("analyse the outbox: %w", err)
	}
	return nil
}

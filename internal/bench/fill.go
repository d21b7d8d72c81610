package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
)

const (
	emitBatch   = 500
	emitWriters = 2
	// envelopeBytes is payload_json around an empty list of orders, orderBytes
	// what each order adds.
	envelopeBytes = 190
	orderBytes    = 40
)

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
		Type:        packfinderz.TypeOrderCreated,
		Namespace:   Measured,
		AggregateID: group.String(),
		Data:        packfinderz.OrderCreated{CheckoutGroupID: group, VendorOrderIDs: orders},
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
		Type: packfinderz.TypeLicenseStatusChanged, Namespace: Measured, AggregateID: license.String(),
		Data: packfinderz.LicenseStatusChanged{
			LicenseID: license, StoreID: uuid.New(), Status: packfinderz.LicenseRejected,
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

// settleDown gives the planner figures of the table as it is now. An outbox in
// use has been analysed; one filled a moment ago has not.
func (r *Trial) settleDown(ctx context.Context) error {
	if _, err := r.DB.Pool.Exec(ctx, `ANALYZE outbox_events`); err != nil {
		return fmt.Errorf("analyse the outbox: %w", err)
	}
	return nil
}

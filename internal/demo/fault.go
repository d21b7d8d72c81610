package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// insertEvent is what a program does that writes to the table by itself: nothing checks the event
// before the publisher does.
const insertEvent = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, headers, namespace)
VALUES ($1, $2, $3, $4, $5, $6, $7)`

// fault is an event the publisher will refuse.
type fault struct {
	eventType     string
	aggregateType string
	aggregateID   string
	data          string
	// bare: the data has no envelope.
	bare       bool
	namespace  string
	headers    map[string]string
	occurredAt time.Time
}

func (f fault) insert(ctx context.Context, tx pgx.Tx) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an event id: %w", err)
	}
	envelope, err := json.Marshal(map[string]any{
		"version": 1, "eventId": id, "occurredAt": f.occurredAt.UTC(), "data": json.RawMessage(f.data),
	})
	if err != nil {
		return fmt.Errorf("encode an envelope: %w", err)
	}
	if f.bare {
		envelope = []byte(f.data)
	}
	headers, err := json.Marshal(f.headers)
	if err != nil {
		return fmt.Errorf("encode headers: %w", err)
	}
	_, err = tx.Exec(ctx, insertEvent, id, f.eventType, f.aggregateType, f.aggregateID,
		json.RawMessage(envelope), json.RawMessage(headers), cmp.Or(f.namespace, "default"))
	return err
}

// faults takes turns, so that a short run shows every kind.
type faults struct {
	random *rand.Rand
	now    func() time.Time
	made   int
}

func (f *faults) next() fault {
	kinds := []func() fault{f.missingField, f.wrongAggregate, f.tooLarge, f.unknownField, f.wrongType}
	made := kinds[f.made%len(kinds)]()
	f.made++
	made.occurredAt = f.now()
	return made
}

func (f *faults) missingField() fault {
	id := newID(f.random).String()
	return fault{
		eventType: packfinderz.TypeLicenseStatusChanged, aggregateType: packfinderz.AggregateLicense, aggregateID: id,
		data: fmt.Sprintf(`{"licenseId":%q,"status":"verified"}`, id),
	}
}

func (f *faults) wrongAggregate() fault {
	id := newID(f.random).String()
	return fault{
		eventType: packfinderz.TypeOrderCanceled, aggregateType: packfinderz.AggregateStore, aggregateID: id,
		data: fmt.Sprintf(`{"orderId":%q,"checkoutGroupId":%q,"canceledAt":%q}`, id, newID(f.random),
			f.now().UTC().Format(time.RFC3339)),
	}
}

// tooLarge has an attribute beyond the broker's limit: as dead as a message of ten megabytes, and
// cheaper to store.
func (f *faults) tooLarge() fault {
	id := newID(f.random).String()
	return fault{
		eventType: packfinderz.TypeMediaUploaded, aggregateType: packfinderz.AggregateMedia, aggregateID: id,
		data: fmt.Sprintf(`{"mediaId":%q,"storeId":%q,"kind":"photo"}`, id, newID(f.random)),
		headers: map[string]string{"caption": strings.Repeat("very ",
			wire.PubSubLimits().AttributeValueBytes/5+1) + "long"},
	}
}

func (f *faults) unknownField() fault {
	id := newID(f.random).String()
	return fault{
		eventType: packfinderz.TypeReservationReleased, aggregateType: packfinderz.AggregateVendorOrder, aggregateID: id,
		data: fmt.Sprintf(`{"orderId":%q,"qty":%d}`, id, 1+f.random.IntN(9)),
	}
}

func (f *faults) wrongType() fault {
	id := newID(f.random).String()
	return fault{
		eventType: packfinderz.TypeCashCollected, aggregateType: packfinderz.AggregateVendorOrder, aggregateID: id,
		data: fmt.Sprintf(`{"orderId":%q,"buyerStoreId":%q,"vendorStoreId":%q,"amountCents":"%d.50","cashCollectedAt":%q}`,
			id, newID(f.random), newID(f.random), 10+f.random.IntN(90), f.now().UTC().Format(time.RFC3339)),
	}
}

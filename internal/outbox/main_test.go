package outbox

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

const testTenant = "018f3f6e-0000-7000-8000-0000000000aa"

func TestMain(m *testing.M) { outboxtest.Main(m) }

// goodEvent is complete; tests spoil one thing at a time.
func goodEvent() emit.Event {
	return emit.Event{
		Type:          packfinderz.TypeReservationReleased,
		AggregateType: packfinderz.AggregateVendorOrder,
		AggregateID:   "018f3f6e-0000-7000-8000-00000000000a",
		Data:          json.RawMessage(`{"orderId":"018f3f6e-0000-7000-8000-00000000000a"}`),
		Actor:         &emit.Actor{UserID: "u-1", Role: "admin"},
		DedupeKey:     testTenant + "/release-1",
		TenantID:      uuid.MustParse(testTenant),
		Namespace:     "shop",
		Headers:       map[string]string{"traceparent": "00-ab"},
		MaxAttempts:   3,
	}
}

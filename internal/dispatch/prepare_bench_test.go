package dispatch

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit/wire"
)

func BenchmarkPrepareRow(b *testing.B) {
	id := uuid.NewString()
	other := uuid.NewString()
	row := &Claimed{
		Key: Key{ID: id}, EventType: "order_canceled", AggregateType: "vendor_order", AggregateID: other, CreatedAt: time.Now(),
		Payload: []byte(`{"data": {"reason": "` + string(make200()) + `", "orderId": "` + other + `", "canceledAt": "2026-03-04T05:06:07Z", "checkoutGroupId": "` + other +
			`"}, "eventId": "` + id + `", "version": 1, "occurredAt": "2026-03-04T05:06:07.123456Z"}`),
	}
	catalogue := catalogue.PackFinderz()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, bad := prepare(catalogue, func(string) wire.Limits { return wire.PubSubLimits() }, row); bad != nil {
			b.Fatal(bad)
		}
	}
}

func make200() []byte {
	text := make([]byte, 200)
	for i := range text {
		text[i] = 'x'
	}
	return text
}

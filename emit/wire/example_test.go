package wire_test

import (
	"fmt"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// A consumer in Go that does without package consume reads the envelope of a message.
func ExampleParseEnvelope() {
	envelope, err := wire.ParseEnvelope([]byte(`{"version":1,"eventId":"018f3f6e-0000-7000-8000-000000000001",
		"occurredAt":"2026-03-04T05:06:07Z","actor":{"userId":"u-1","role":"admin"},"data":{"orderId":"42"}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(envelope.EventID, envelope.Actor.Role, string(envelope.Data))
	// Output:
	// 018f3f6e-0000-7000-8000-000000000001 admin {"orderId":"42"}
}

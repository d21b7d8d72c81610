package catalogue_test

import (
	"encoding/json"
	"fmt"

	"github.com/outboxctl/outboxctl/catalogue"
)

// A program that knows its types at compile time writes them in Go: the schema of order.ready is that of a struct.
func ExampleNew() {
	type OrderReady struct {
		Door int `json:"door"`
	}
	types, err := catalogue.New("shop",
		catalogue.Of[OrderReady]("order.ready", catalogue.Type{Topic: "orders", Aggregate: "order"}),
		catalogue.Type{Name: "usage.counted", Topic: "usage", Aggregate: catalogue.None, Schema: catalogue.Any, Envelope: catalogue.None})
	if err != nil {
		panic(err)
	}
	_, topic, _ := types.Resolve("order.ready")
	fmt.Println(topic)
	fmt.Println(types.Validate("order.ready", json.RawMessage(`{"door": 7}`)))
	fmt.Println(types.Validate("order.ready", json.RawMessage(`{"door": "seven"}`)))
	// Output:
	// orders
	// <nil>
	// invalid payload of order.ready: data.door must be an integer, not a string
}

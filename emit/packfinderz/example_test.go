package packfinderz_test

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
)

// A built-in type has a struct for its data, and an emitter of the built-in catalogue checks it.
func ExampleCatalogue() {
	id := uuid.MustParse("018f3f6e-0000-7000-8000-000000000001")
	err := emit.New(packfinderz.Catalogue{}).Validate(emit.Event{
		Type: packfinderz.TypeMediaUploaded, AggregateID: id.String(),
		Data: packfinderz.MediaUploaded{MediaID: id, StoreID: id, Kind: ""},
	})
	fmt.Println(err)
	// Output:
	// invalid event: data.kind must not be empty
}

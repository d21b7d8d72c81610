package broker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker"
)

type unsettled struct{}

func (unsettled) Ack()  {}
func (unsettled) Nack() {}

// A delivery that is held back keeps no place, and the next of its key comes when it was taken; the end waits for it.
func TestAHeldDeliveryKeepsNoPlace(t *testing.T) {
	t.Parallel()
	pump, got := broker.NewPump(1), make(chan broker.Delivery, 3)
	for _, key := range []string{"a", "a", "b"} {
		require.True(t, pump.Hand(t.Context(), broker.Delivery{Message: unsettled{}, OrderingKey: key}, func(d broker.Delivery) { got <- d }))
	}
	ended := make(chan struct{})
	go func() { pump.Wait(); close(ended) }()
	for _, key := range []string{"a", "a", "b"} {
		d := <-got
		require.Equal(t, key, d.OrderingKey)
		select {
		case <-ended:
			t.Fatal("it ended before everything was settled")
		default:
		}
		d.Ack()
	}
	<-ended
}

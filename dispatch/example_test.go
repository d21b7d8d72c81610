package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/outboxctl/outboxctl/dispatch"
)

// A function becomes a Publisher. What it returns decides what becomes of the event.
func ExampleEach() {
	publisher := dispatch.Each(func(_ context.Context, topic string, m dispatch.Message) error {
		switch string(m.Data) {
		case "bad":
			return dispatch.Reject(errors.New("no retry helps"))
		case "later":
			return errors.New("try again, with backoff")
		}
		fmt.Println(topic, m.EventID, string(m.Data))
		return nil
	}, 1)
	results := publisher.Publish(context.Background(), "orders", []dispatch.Message{
		{EventID: "1", Data: []byte("good")}, {EventID: "2", Data: []byte("bad")}, {EventID: "3", Data: []byte("later")},
	})
	for _, r := range results[1:] {
		fmt.Println(dispatch.ClassOf(r.Err), r.Err)
	}
	// Output:
	// orders 1 good
	// rejected no retry helps
	// retryable try again, with backoff
}

// A program publishes its own events until it is told to stop.
func ExampleDispatcher_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	d, err := dispatch.New(ctx, dispatch.Config{
		URL: os.Getenv("DATABASE_URL"),
		Publisher: dispatch.Each(func(context.Context, string, dispatch.Message) error {
			return nil // hand the event to your own code
		}, 8),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	fmt.Println(d.Run(ctx))
}

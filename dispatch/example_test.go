package dispatch_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
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

// A program that has emitted an event publishes what is there and ends. A service calls Run
// instead, which publishes until its context ends.
func ExampleDispatcher_Once() {
	db, drop := outboxtest.Example(outboxtest.DB) // yours is in os.Getenv("DATABASE_URL")
	defer drop()
	ctx := context.Background()
	if err := emitOne(ctx, db.Pool); err != nil {
		panic(err)
	}
	d, err := dispatch.New(ctx, dispatch.Config{
		URL: db.URL,
		Publisher: dispatch.Each(func(_ context.Context, topic string, m dispatch.Message) error {
			fmt.Println(topic, m.Attributes["event_type"])
			return nil // hand the event to your own code
		}, 8),
	})
	if err != nil {
		panic(err)
	}
	defer d.Close()
	done, err := d.Once(ctx)
	fmt.Println(done.Published, "published", err)
	// Output:
	// domain media_uploaded
	// 1 published <nil>
}

func emitOne(ctx context.Context, pool *pgxpool.Pool) error {
	id := uuid.New()
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := packfinderz.Emit(ctx, tx, emit.Event{
			Type: packfinderz.TypeMediaUploaded, AggregateID: id.String(),
			Data: packfinderz.MediaUploaded{MediaID: id, StoreID: uuid.New(), Kind: "photo"},
		})
		return err
	})
}

package consume_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/consume"
)

// delivery stands for a broker's message.
type delivery struct{ eventID, body string }

func (d delivery) Ack()  { fmt.Println("ack", d.body) }
func (d delivery) Nack() { fmt.Println("nack", d.body) }

// A worker settles every delivery through the guard. With Pub/Sub, the loop is
// the subscriber's:
//
//	sub.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
//		guard.Handle(ctx, m, m.Attributes[consume.AttrEventID], func(ctx context.Context) error {
//			return sendMail(ctx, m.Data)
//		})
//	})
func Example() {
	url, stop := exampleRedis() // in production: the URL of your Redis
	defer stop()
	rdb, err := consume.NewClient(url)
	if err != nil {
		panic(err)
	}
	defer rdb.Close()

	guard, err := consume.New(rdb, "mailer", consume.Options{})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if _, err := guard.Check(ctx); err != nil {
		panic(err)
	}

	const first, second = "019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d", "019a8b5e-3c1b-7e01-8a52-6d1c2b3a4f5e"
	for _, d := range []delivery{{first, "welcome"}, {first, "welcome"}, {second, "receipt"}} {
		outcome, err := guard.Handle(ctx, d, d.eventID, func(context.Context) error {
			fmt.Println("send", d.body)
			return nil
		})
		fmt.Println(outcome, err)
	}
	// Output:
	// send welcome
	// ack welcome
	// processed <nil>
	// ack welcome
	// duplicate <nil>
	// send receipt
	// ack receipt
	// processed <nil>
}

// A handler that fails gives the event back: its next delivery runs at once.
func ExampleGuard_Process() {
	url, stop := exampleRedis()
	defer stop()
	rdb, err := consume.NewClient(url)
	if err != nil {
		panic(err)
	}
	defer rdb.Close()
	guard, err := consume.New(rdb, "mailer", consume.Options{})
	if err != nil {
		panic(err)
	}

	const eventID = "019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d"
	mailServer := errors.New("mail server is away")
	for range 3 {
		outcome, err := guard.Process(context.Background(), eventID, func(context.Context) error {
			defer func() { mailServer = nil }()
			return mailServer
		})
		fmt.Println(outcome, outcome.Ack(), err)
	}
	// Output:
	// failed false mail server is away
	// processed true <nil>
	// duplicate true <nil>
}

// Events that are delivered at the same time share a transaction; the function writes what they mean in one statement.
func ExampleRouter_HandleBatch() {
	var (
		guard *consume.Guard // consume.New
		pool  consume.DB     // a *pgxpool.Pool
	)
	r := consume.NewRouter(guard, consume.RouterOptions{})
	r.HandleBatch("order.paid", pool, consume.BatchOptions{}, func(ctx context.Context, tx pgx.Tx, events []consume.Event) error {
		ids := make([]string, len(events))
		for i, e := range events {
			ids[i] = e.AggregateID
		}
		_, err := tx.Exec(ctx, `UPDATE orders SET paid = true WHERE id = ANY($1)`, ids)
		return err
	})
}

// Run receives, paces what fails and waits while Redis is away. With Pub/Sub, the source calls the subscriber's Receive.
func ExampleRouter_Run() {
	url, stop := exampleRedis()
	defer stop()
	rdb, err := consume.NewClient(url)
	if err != nil {
		panic(err)
	}
	defer rdb.Close()
	guard, err := consume.New(rdb, "doors", consume.Options{})
	if err != nil {
		panic(err)
	}
	failed := errors.New("the door is stuck")
	r := consume.NewRouter(guard, consume.RouterOptions{
		Log: slog.New(slog.DiscardHandler),
		Observer: consume.Observer{Settled: func(_ consume.Delivery, outcome consume.Outcome, err error) {
			fmt.Println(outcome, err)
		}},
	})
	r.Handle("order.ready", func(context.Context, consume.Event) error {
		defer func() { failed = nil }()
		return failed
	})
	attributes := map[string]string{
		consume.AttrEventID: "019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d", consume.AttrEventType: "order.ready",
	}
	err = r.Run(context.Background(), func(_ context.Context, deliver func(consume.Delivery)) error {
		for attempt := range 3 {
			message := make(settledMessage)
			deliver(consume.Delivery{Message: message, Attributes: attributes, Attempt: attempt + 1})
			<-message // a broker delivers it again when it was given back
		}
		return consume.Stop(io.EOF)
	})
	fmt.Println(err)
	// Output:
	// failed the door is stuck
	// processed <nil>
	// duplicate <nil>
	// receive: EOF
}

// settledMessage is closed when it is acknowledged or given back.
type settledMessage chan struct{}

func (m settledMessage) Ack()  { close(m) }
func (m settledMessage) Nack() { close(m) }

// A handler per event type gets the event's data as a struct of its own. What was handled before is acknowledged only.
func ExampleOn() {
	url, stop := exampleRedis()
	defer stop()
	rdb, err := consume.NewClient(url)
	if err != nil {
		panic(err)
	}
	defer rdb.Close()
	guard, err := consume.New(rdb, "doors", consume.Options{})
	if err != nil {
		panic(err)
	}
	type orderReady struct {
		Door int `json:"door"`
	}
	r := consume.NewRouter(guard, consume.RouterOptions{})
	consume.On(r, "order.ready", func(_ context.Context, e consume.Event, order orderReady) error {
		fmt.Println("open door", order.Door, "for order", e.AggregateID)
		return nil
	})
	attributes := map[string]string{
		consume.AttrEventID: "019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d", consume.AttrEventType: "order.ready", consume.AttrAggregateID: "42",
	}
	for range 2 {
		outcome, err := r.Deliver(context.Background(), delivery{body: "order 42"}, attributes, []byte(`{"door": 7}`))
		fmt.Println(outcome, err)
	}
	// Output:
	// open door 7 for order 42
	// ack order 42
	// processed <nil>
	// ack order 42
	// duplicate <nil>
}

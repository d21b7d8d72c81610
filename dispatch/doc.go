// Package dispatch runs the outbox's dispatcher inside your own program: committed events go to a
// Publisher of yours, or to a plain function.
//
//	d, err := dispatch.New(ctx, dispatch.Config{
//		URL:       os.Getenv("DATABASE_URL"),
//		Publisher: dispatch.Each(func(ctx context.Context, topic string, m dispatch.Message) error { … }, 8),
//	})
//	if err != nil { … }
//	defer d.Close()
//	err = d.Run(ctx) // until ctx ends
//
// What it guarantees, however often a process is killed:
//
//   - every committed event is handed over at least once, and marked as published only after the Publisher acknowledged it;
//   - an event belongs to one publisher at a time, by a lease; those of a publisher that died are taken over when it ends;
//   - what fails is repeated with backoff, and is a dead letter when its attempts are used up; a topic that takes nothing
//     is left alone, and its events keep their attempts;
//   - events of one ordering key are handed over in their order.
//
// Any number of these dispatchers and of outboxctl publish may work on one database. The commands
// of outboxctl show them, their dead letters and their backlog as those of its own publishers.
//
// Handing over an event twice is possible, so what receives it must be idempotent: package consume
// helps.
package dispatch

package dlq

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// What becomes of an event that is sent again.
const (
	BecamePublished = "published"
	BecameDead      = "dead"
	BecameFailing   = "failing"
	BecameWaiting   = "waiting"
)

// awaitEvery is how often the database is asked what became of events, unless told.
const awaitEvery = 250 * time.Millisecond

// AwaitParams names what was sent again.
type AwaitParams struct {
	Sent    []Outcome
	Timeout time.Duration
	// Every is how often the database is asked, at most; 0: four times a second.
	Every time.Duration
	// OnSettled is told once what became of each: published, dead or, when the wait is over, failing
	// or waiting.
	OnSettled func(Outcome) error
}

// await waits until every event is published or dead, or the time is over, or ctx ends.
func (o *Outbox) await(ctx context.Context, p AwaitParams) (sum Fates, err error) {
	rows := make(map[string][]Outcome, len(p.Sent))
	open := make([]string, 0, len(p.Sent))
	for _, row := range p.Sent {
		if rows[row.EventID] == nil {
			open = append(open, row.EventID)
		}
		rows[row.EventID] = append(rows[row.EventID], row)
	}
	settle := func(event, became string) error {
		for _, row := range rows[event] {
			row.Became = became
			if err := p.OnSettled(row); err != nil {
				return err
			}
		}
		return nil
	}
	deadline := time.NewTimer(p.Timeout)
	defer deadline.Stop()
	for last := false; ; {
		began := time.Now()
		if open, err = o.awaitRound(ctx, settle, open, last, &sum); err != nil || len(open) == 0 || last {
			return sum, err
		}
		// A round over very many events rests as long as it took, so that the database is asked half of
		// the time.
		rest := time.NewTimer(max(cmp.Or(p.Every, awaitEvery), time.Since(began)))
		select {
		case <-rest.C:
		case <-deadline.C:
			last = true
		case <-ctx.Done():
			rest.Stop()
			finish, cancel := finishing(ctx)
			defer cancel()
			_, err = o.awaitRound(finish, settle, open, true, &sum) // what is known is still told
			return sum, err
		}
		rest.Stop()
	}
}

// awaitRound asks once about every event that is open, in chunks, and returns those that still are.
func (o *Outbox) awaitRound(ctx context.Context, settle func(event, became string) error, open []string, last bool, sum *Fates) (left []string, err error) {
	for part := range slices.Chunk(open, ChunkSize) {
		events, err := outbox.Rows[struct {
			ID              string
			Published, Dead bool
			Attempts        int
		}](ctx, o.DB, "watch the events", selectProgress, part)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			became, n := BecameWaiting, &sum.Waiting
			switch {
			case e.Published:
				became, n = BecamePublished, &sum.Published
			case e.Dead:
				became, n = BecameDead, &sum.Dead
			case !last:
				left = append(left, e.ID)
				continue
			case e.Attempts > 0:
				became, n = BecameFailing, &sum.Failing
			}
			*n++
			if err := settle(e.ID, became); err != nil {
				return nil, err
			}
		}
	}
	return left, nil
}

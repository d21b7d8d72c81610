package dlq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// What becomes of an event that is sent again.
const (
	BecamePublished = "published"
	BecameDead      = "dead"
	BecameFailing   = "failing"
	BecameWaiting   = "waiting"
)

// AwaitParams names events that were sent again.
type AwaitParams struct {
	Events  []string
	Timeout time.Duration
	// Every is how often the database is asked, at most.
	Every time.Duration
	// OnSettled is told once what became of each event: published, dead or, when the wait is over, failing or waiting.
	OnSettled func(event, became string) error
}

// Await waits until every event is published or dead, or the time is over, or ctx ends.
func (s *Store) Await(ctx context.Context, p AwaitParams) (sum Watched, err error) {
	deadline := time.NewTimer(p.Timeout)
	defer deadline.Stop()
	open := p.Events
	for last := false; ; {
		began := time.Now()
		if open, err = s.awaitRound(ctx, p, open, last, &sum); err != nil || len(open) == 0 || last {
			return sum, err
		}
		// A round over very many events rests as long as it took, so that the database is asked half of the time.
		rest := time.NewTimer(max(p.Every, time.Since(began)))
		select {
		case <-rest.C:
		case <-deadline.C:
			last = true
		case <-ctx.Done():
			rest.Stop()
			finish, cancel := finishing(ctx)
			defer cancel()
			_, err = s.awaitRound(finish, p, open, true, &sum) // what is known is still told
			return sum, err
		}
		rest.Stop()
	}
}

// awaitRound asks once about every event that is open, in chunks, and returns those that still are.
func (s *Store) awaitRound(ctx context.Context, p AwaitParams, open []string, last bool, sum *Watched) (left []string, err error) {
	for part := range slices.Chunk(open, ChunkSize) {
		rows, err := s.db.Query(ctx, selectProgress, part)
		if err != nil {
			return nil, fmt.Errorf("watch the events: %w", err)
		}
		var id string
		var published, dead bool
		var attempts int
		_, err = pgx.ForEachRow(rows, []any{&id, &published, &dead, &attempts}, func() error {
			became, n := BecameWaiting, &sum.Waiting
			switch {
			case published:
				became, n = BecamePublished, &sum.Published
			case dead:
				became, n = BecameDead, &sum.Dead
			case !last:
				left = append(left, id)
				return nil
			case attempts > 0:
				became, n = BecameFailing, &sum.Failing
			}
			*n++
			return p.OnSettled(id, became)
		})
		if err != nil {
			return nil, fmt.Errorf("watch the events: %w", err)
		}
	}
	return left, nil
}

package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Publishers lists the publishers that sent a heartbeat within the last minutes, and who holds events without one: those that are
// alive first, the oldest first.
func Publishers(ctx context.Context, db outbox.Querier) ([]dispatch.Peer, error) {
	peers, err := dispatch.Holders(ctx, db)
	slices.SortStableFunc(peers, func(a, b dispatch.Peer) int {
		return cmp.Or(-compareBools(a.Alive, b.Alive), orZero(a.StartedAt).Compare(orZero(b.StartedAt)), cmp.Compare(a.ID, b.ID))
	})
	return peers, err
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func publishers(ctx context.Context, tx pgx.Tx, r *Report) error {
	peers, err := Publishers(ctx, tx)
	if err != nil {
		return err
	}
	var left dispatch.TypesIn // by every publisher so far
	for _, p := range peers {
		if !p.Alive {
			r.Gone = append(r.Gone, p)
			continue
		}
		left = leftByAll(left, p.State.Catalogue, len(r.Publishers) == 0)
		r.Publishers = append(r.Publishers, p)
		for _, t := range p.State.Topics {
			if t.State != dispatch.TopicHealthy {
				r.Topics = append(r.Topics, TopicState{
					Topic: t.Topic, State: string(t.State), Since: t.Since, Error: t.Error, Publisher: fmt.Sprintf("%s/%d", p.Host, p.PID),
				})
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, strandedQuery, outbox.ByNamespace(left).Texts())
	if err != nil {
		return err
	}
	r.Stranded, err = pgx.CollectRows(rows, pgx.RowToStructByPos[StrandedType])
	return err
}

// leftByAll keeps the event types that one more publisher leaves to others, too.
func leftByAll(left dispatch.TypesIn, c *dispatch.CatalogueReport, first bool) dispatch.TypesIn {
	both := dispatch.TypesIn{}
	add := func(of dispatch.TypesIn, with func(namespace, eventType string) bool) {
		for namespace, types := range of {
			for _, eventType := range types {
				if with(namespace, eventType) && !both.Has(namespace, eventType) {
					both[namespace] = append(both[namespace], eventType)
				}
			}
		}
	}
	add(left, c.Leaves)
	if c != nil {
		others := func(namespace, eventType string) bool { return first || left.Has(namespace, eventType) }
		add(c.Unknown, others)
		add(c.StoodDown, others)
	}
	return both
}

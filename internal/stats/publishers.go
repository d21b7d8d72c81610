package stats

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func publishers(ctx context.Context, tx pgx.Tx, r *Report) error {
	rows, err := tx.Query(ctx, publishersQuery, outbox.AliveFor)
	if err != nil {
		return err
	}
	var p Publisher
	var raw []byte
	var left dispatch.TypesIn // by every publisher so far
	_, err = pgx.ForEachRow(rows, []any{&p.ID, &p.Host, &p.PID, &p.Version, &p.StartedAt, &p.LastSeenAt, &raw}, func() error {
		var state dispatch.PublisherState
		if err := json.Unmarshal(raw, &state); err != nil {
			return fmt.Errorf("read the state of publisher %s: %w", p.ID, err)
		}
		p.InFlight = int64(state.InFlight)
		left = leftByAll(left, state.Catalogue, len(r.Publishers) == 0)
		r.Publishers = append(r.Publishers, p)
		for _, t := range state.Topics {
			if t.State != dispatch.TopicHealthy {
				r.Topics = append(r.Topics, TopicState{
					Topic: t.Topic, State: string(t.State), Since: t.Since, Error: t.Error, Publisher: fmt.Sprintf("%s/%d", p.Host, p.PID),
				})
			}
		}
		return nil
	})
	if err != nil || len(left) == 0 {
		return err
	}
	rows, err = tx.Query(ctx, strandedQuery, outbox.ByNamespace(left).Texts())
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

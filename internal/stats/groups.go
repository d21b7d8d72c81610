package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Dimensions are the values of By.
func Dimensions() []string { return []string{"type", "topic", "tenant", "namespace", "aggregate"} }

// groupColumns are the expressions behind the dimensions. A topic is no column: its event types are
// added up, by namespace.
func groupColumns() map[string]string {
	return map[string]string{
		"type": "event_type", "topic": "namespace || ' ' || event_type::text", "tenant": "tenant_id", "namespace": "namespace", "aggregate": "aggregate_type",
	}
}

func groups(ctx context.Context, tx pgx.Tx, catalogue Catalogue, p Params) ([]Group, error) {
	column, ok := groupColumns()[p.By]
	if !ok {
		return nil, fmt.Errorf("group by %q: no such dimension", p.By)
	}
	found := map[string]*Group{}
	at := func(key string) *Group {
		if p.By == "topic" {
			key = topicOf(catalogue, key)
		}
		if found[key] == nil {
			found[key] = &Group{Key: key}
		}
		return found[key]
	}
	var g Group
	into := []any{
		&g.Key, &g.Backlog, &g.Due, &g.BackingOff, &g.InFlight, &g.AtMaxAttempts, &g.OldestUnpublishedAt,
		&g.Parked, &g.Scheduled,
	}
	err := outbox.Each(ctx, tx, "group what waits", fmt.Sprintf(groupQuery, column), []any{p.MaxAttempts}, into, func() {
		at(g.Key).add(g)
		g.OldestUnpublishedAt = nil
	})
	if err != nil {
		return nil, err
	}
	open := fmt.Sprintf(dlqGroupQuery, column)
	if p.By == "tenant" {
		open = dlqTenantQuery
	}
	var key string
	var n int64
	err = outbox.Each(ctx, tx, "group dead letters", open, nil, []any{&key, &n}, func() { at(key).DLQOpen += n })
	if err != nil {
		return nil, err
	}
	all := make([]Group, 0, len(found))
	for _, g := range found {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Backlog, a.Backlog), cmp.Compare(b.DLQOpen, a.DLQOpen),
			cmp.Compare(a.Key, b.Key))
	})
	return all, nil
}

// topicOf is the topic of a namespace, a blank and a type. The names of types have no blanks.
func topicOf(catalogue Catalogue, stored string) string {
	blank := strings.LastIndexByte(stored, ' ')
	return cmp.Or(catalogue.TopicOf(stored[:blank], stored[blank+1:]), "unknown")
}

func (g *Group) add(part Group) {
	g.Backlog += part.Backlog
	g.Due += part.Due
	g.BackingOff += part.BackingOff
	g.InFlight += part.InFlight
	g.Scheduled += part.Scheduled
	g.Parked += part.Parked
	g.AtMaxAttempts += part.AtMaxAttempts
	g.OldestUnpublishedAt = earlier(g.OldestUnpublishedAt, part.OldestUnpublishedAt)
}

func earlier(a, b *time.Time) *time.Time {
	if a == nil || (b != nil && b.Before(*a)) {
		return b
	}
	return a
}

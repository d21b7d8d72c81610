package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Publishers lists the publishers that sent a heartbeat within the last minutes, and who holds
// events without one: those that are alive first, the oldest first.
func Publishers(ctx context.Context, db outbox.Querier) ([]dispatch.Peer, error) {
	peers, err := dispatch.Holders(ctx, db)
	rank := map[bool]int{false: 1}
	slices.SortStableFunc(peers, func(a, b dispatch.Peer) int {
		return cmp.Or(rank[a.Alive]-rank[b.Alive], orZero(a.StartedAt).Compare(orZero(b.StartedAt)), cmp.Compare(a.ID, b.ID))
	})
	return peers, err
}

func orZero(t *time.Time) time.Time { return *cmp.Or(t, &time.Time{}) }

func publishers(ctx context.Context, tx pgx.Tx, names outbox.Names, r *Report) error {
	peers, err := Publishers(ctx, tx)
	if err != nil {
		return err
	}
	for _, p := range peers {
		if !p.Alive {
			r.Gone = append(r.Gone, p)
			continue
		}
		r.Publishers = append(r.Publishers, p)
		for _, t := range p.State.Topics {
			if t.State != dispatch.TopicHealthy {
				r.Topics = append(r.Topics, TopicState{
					Topic: t.Topic, State: string(t.State), Since: t.Since, Error: t.Error, Publisher: fmt.Sprintf("%s/%d", p.Host, p.PID),
				})
			}
		}
	}
	return stranded(ctx, tx, names, r)
}

// stranded counts what waits that none of the publishers that are alive takes.
func stranded(ctx context.Context, tx pgx.Tx, names outbox.Names, r *Report) error {
	var left []string // by all that were told to take everything; nil: there is none
	tenants := []string{}
	for _, p := range r.Publishers {
		if t := p.State.Takes; t.String() != "" {
			tenants = append(tenants, strings.ToLower(t.TenantID))
			continue
		}
		types := p.State.Catalogue.Left()
		if left != nil {
			types = slices.DeleteFunc(types, func(t string) bool { return !slices.Contains(left, t) })
		}
		left = append([]string{}, types...)
	}
	if len(r.Publishers) == 0 || left != nil && len(left) == 0 {
		return nil
	}
	var s StrandedType
	var tenant string
	into := []any{&s.Namespace, &s.EventType, &tenant, &s.Events, &s.OldestAt}
	return outbox.Each(ctx, tx, "look for what nobody takes", waitingOfTypes, []any{tenants, left}, into, func() {
		var none bool
		if none, s.Told = dispatch.Stranded(r.Publishers, names, s.Namespace, s.EventType, tenant); none {
			r.addStranded(s)
		}
	})
}

// addStranded adds what waits of a type, whose tenants follow each other.
func (r *Report) addStranded(s StrandedType) {
	if n := len(r.Stranded); n > 0 && r.Stranded[n-1].Namespace == s.Namespace && r.Stranded[n-1].EventType == s.EventType {
		last := r.Stranded[n-1]
		s.Events, s.Told = s.Events+last.Events, s.Told || last.Told
		if last.OldestAt.Before(s.OldestAt) {
			s.OldestAt = last.OldestAt
		}
		r.Stranded = r.Stranded[:n-1]
	}
	r.Stranded = append(r.Stranded, s)
}

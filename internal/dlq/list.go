package dlq

import (
	"context"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// ListDeadLetters passes the dead letters of a filter to each, newest first.
func (o *Outbox) ListDeadLetters(ctx context.Context, p outbox.ListParams, each func(Entry) error) (outbox.Paged, error) {
	start := func(f Filter) (*outbox.Scan[Entry], error) { return o.ScanDeadLetters(f, outbox.NewestFirst) }
	return outbox.List(ctx, &o.Outbox.Outbox, p, start, each, func(e Entry) string { return e.ID })
}

// mostGroups bounds a list of groups: they are counted by one statement and held in memory.
const mostGroups = 1_000_000

// GroupParams describes what to count.
type GroupParams struct {
	Filter Filter
	// By is one of dlq.GroupBy().
	By string
	// Limit is how many groups to return; 0: all.
	Limit int
}

// GroupResult is the groups, the largest first.
type GroupResult struct {
	Groups []Group
	// More reports that there are more groups than the limit.
	More bool
}

// Check reports what is wrong with the params, before anything is opened.
func (p *GroupParams) Check() error {
	if err := words.OneOf("--group-by", p.By, GroupBy()); err != nil {
		return err
	}
	return outbox.Page{Limit: p.Limit}.CheckLimit()
}

// GroupDeadLetters counts the dead letters of a filter by what they share.
func (o *Outbox) GroupDeadLetters(ctx context.Context, p GroupParams) (GroupResult, error) {
	if err := p.Check(); err != nil {
		return GroupResult{}, err
	}
	if err := o.SettleAggregate(ctx, &p.Filter); err != nil {
		return GroupResult{}, err
	}
	limit := p.Limit
	if limit == 0 || limit > mostGroups {
		limit = mostGroups
	}
	groups, err := o.Groups(ctx, p.Filter, p.By, limit+1) // one more than asked for tells whether there are more
	if err != nil {
		return GroupResult{}, err
	}
	shown := groups[:min(limit, len(groups))]
	return GroupResult{Groups: shown, More: len(shown) < len(groups)}, nil
}

// endsLooked is how many of the newest rows are looked at for an id that ends so: no index has its
// end. endsFound is how many are named.
const (
	endsLooked = 100_000
	endsFound  = 20
)

// ByEnds is an event or a dead letter whose id begins and ends as was asked.
type ByEnds struct {
	// Kind is event, or dead letter.
	Kind string
	ID   string
}

// With a beginning it reads a part of the primary keys, else their newest ends.
const selectByEnds = `
SELECT kind, id FROM (
    SELECT 'dead letter' AS kind, d.id::text AS id
      FROM (SELECT id FROM outbox_dlq WHERE id BETWEEN $1::text::uuid AND $2::text::uuid ORDER BY id DESC LIMIT $4) AS d
    UNION ALL
    SELECT 'event', e.id::text
      FROM (SELECT id FROM outbox_events WHERE id BETWEEN $1::text::uuid AND $2::text::uuid ORDER BY id DESC LIMIT $4) AS e) AS newest
 WHERE right(id, length($3::text)) = $3
 LIMIT $5`

// FindByEnds finds events and dead letters by the first eight digits of their ids, which may be
// empty, and the last ones.
func (o *Outbox) FindByEnds(ctx context.Context, first, last string) ([]ByEnds, error) {
	low, high := "00000000", "ffffffff"
	if first != "" {
		low, high = first, first
	}
	return outbox.Rows[ByEnds](ctx, o.DB, "find by the end of an id", selectByEnds,
		low+"-0000-0000-0000-000000000000", high+"-ffff-ffff-ffff-ffffffffffff", last, endsLooked, endsFound)
}

// SuggestEntries lists the newest dead letters in a state (empty: any) whose id
// begins with prefix. It looks at the newest thousand only: a completion must
// not search.
func (o *Outbox) SuggestEntries(ctx context.Context, state, prefix string) ([]outbox.Suggestion, error) {
	f := Filter{State: state}
	w, err := compile(f)
	if err != nil || !outbox.IsIDPrefix(prefix) {
		return nil, err
	}
	return outbox.Rows[outbox.Suggestion](ctx, o.DB, "suggest dead letters", fmt.Sprintf(`
SELECT id::text AS value, event_type::text || ' ' || error_reason::text || ': ' || left(error_message, 60) AS about
  FROM (SELECT id, event_type, error_reason, error_message, failed_at FROM outbox_dlq WHERE %s ORDER BY failed_at DESC, id DESC LIMIT 1000) AS d
 WHERE starts_with(id::text, $1)
 ORDER BY failed_at DESC, id DESC
 LIMIT %d`, where(f, &w), outbox.SuggestLimit), prefix)
}

package why_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// deadLetters reads one part of the list of dead letters.
func (b *bundle) deadLetters(p outbox.ListParams) (ids []string, next string) {
	b.t.Helper()
	page, err := b.outbox.ListDeadLetters(b.ctx, p, func(e dlq.Entry) error {
		ids = append(ids, e.ID)
		return nil
	})
	require.NoError(b.t, err)
	return ids, page.Next
}

func (b *bundle) events(p outbox.ListParams) (ids []string, next string) {
	b.t.Helper()
	page, err := b.outbox.ListEvents(b.ctx, p, func(e outbox.Event) error {
		ids = append(ids, e.ID)
		return nil
	})
	require.NoError(b.t, err)
	return ids, page.Next
}

// A search that looks at rows one by one ends after so many, or so long, and goes on from there.
func TestASearchIsCutShortAndGoesOn(t *testing.T) {
	b := setup(t)
	needle, _ := b.die("the needle")
	b.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, 'hay', attempt_count FROM outbox_dlq, generate_series(1, 2500)`)
	for _, p := range []outbox.Page{{Limit: 10, LookAt: 1_000}, {Limit: 10, LookAt: 100_000, LookFor: 1}} {
		var found []string
		requests := 0
		for {
			requests++
			page, err := b.outbox.ListDeadLetters(b.ctx, outbox.ListParams{Filter: dlq.Filter{ErrorLike: "needle"}, Page: p},
				func(e dlq.Entry) error { found = append(found, e.ID); return nil })
			require.NoError(t, err)
			require.Equal(t, page.Next != "", page.Looked > 0)
			if p.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		require.Equal(t, []string{needle}, found)
		require.Greater(t, requests, 1)
	}
}

// The parts of a list are the list, whatever their size, and the last part has no next one.
func TestListsPage(t *testing.T) {
	b := setup(t)
	var letters, events []string
	for range 5 {
		letter, event := b.die("no")
		letters, events = append([]string{letter}, letters...), append([]string{event}, events...)
	}
	open := dlq.Filter{State: dlq.StateOpen}
	for _, limit := range []int{0, 1, 2, 4, 5, 6} {
		for name, tc := range map[string]struct {
			want []string
			read func(outbox.Page) ([]string, string)
		}{
			"dead letters": {letters, func(p outbox.Page) ([]string, string) {
				return b.deadLetters(outbox.ListParams{Filter: open, Page: p})
			}},
			"events": {events, func(p outbox.Page) ([]string, string) { return b.events(outbox.ListParams{Page: p}) }},
		} {
			var got []string
			page := outbox.Page{Limit: limit}
			for parts := 1; ; parts++ {
				ids, next := tc.read(page)
				got = append(got, ids...)
				if next == "" {
					break
				}
				require.Len(t, ids, limit, "%s, limit %d", name, limit)
				require.Equal(t, ids[limit-1], next)
				page.Cursor = next
			}
			require.Equal(t, tc.want, got, "%s, limit %d", name, limit)
		}
	}
}

func TestListRefusals(t *testing.T) {
	b := setup(t)
	broken := errors.New("broken pipe")
	for name, tc := range map[string]struct {
		page   outbox.Page
		filter string
		kind   fault.Kind
	}{
		"negative limit": {page: outbox.Page{Limit: -1}, kind: fault.Usage},
		"odd cursor":     {page: outbox.Page{Cursor: "odd"}, kind: fault.Usage},
		"unknown cursor": {page: outbox.Page{Cursor: uuid.NewString()}, kind: fault.NotFound},
		"unknown state":  {filter: "odd", kind: fault.Usage},
	} {
		_, err := b.outbox.ListDeadLetters(b.ctx, outbox.ListParams{Filter: dlq.Filter{State: tc.filter}, Page: tc.page}, nil)
		require.Error(t, err, name)
		requireKind(t, tc.kind, err)
		_, err = b.outbox.ListEvents(b.ctx, outbox.ListParams{Filter: outbox.Filter{Status: tc.filter}, Page: tc.page}, nil)
		require.Error(t, err, name)
		requireKind(t, tc.kind, err)
	}
	cursor := outbox.ListParams{Page: outbox.Page{Cursor: "odd"}}
	requireKind(t, fault.Usage, cursor.Check()) // before anything is opened
	// A value that no enum of the schema has is the caller's mistake, and a reader's error comes back as it is.
	b.emit("", 0)
	_, err := b.outbox.ListEvents(b.ctx, outbox.ListParams{Filter: outbox.Filter{Types: []string{"odd"}}}, nil)
	requireKind(t, fault.Usage, err)
	_, err = b.outbox.ListEvents(b.ctx, outbox.ListParams{}, func(outbox.Event) error { return broken })
	require.ErrorIs(t, err, broken)
}

func TestGroupsTellWhetherThereAreMore(t *testing.T) {
	b := setup(t)
	for _, cause := range []string{"a", "b", "b", "c", "c", "c"} {
		b.die(cause)
	}
	for limit, want := range map[int][]string{0: {"c", "b", "a"}, 1: {"c"}, 2: {"c", "b"}, 3: {"c", "b", "a"}, 4: {"c", "b", "a"}} {
		r, err := b.outbox.GroupDeadLetters(b.ctx, dlq.GroupParams{By: "fingerprint", Limit: limit})
		require.NoError(t, err)
		var got []string
		for _, g := range r.Groups {
			got = append(got, g.Value)
		}
		require.Equal(t, want, got, "limit %d", limit)
		require.Equal(t, len(want) < 3, r.More, "limit %d", limit)
	}
	for _, p := range []dlq.GroupParams{{By: "odd"}, {}, {By: "reason", Limit: -1}} {
		_, err := b.outbox.GroupDeadLetters(b.ctx, p)
		requireKind(t, fault.Usage, err)
	}
}

func TestExportChoosesByFilterOrIDs(t *testing.T) {
	b := setup(t)
	first, firstEvent := b.die("no")
	second, secondEvent := b.die("no")
	b.act(dlq.Discard, second)
	unknown := uuid.NewString()
	for name, tc := range map[string]struct {
		params dlq.ExportParams
		want   []string
		kind   fault.Kind // empty: no error
	}{
		"open ones":              {dlq.ExportParams{Filter: &dlq.Filter{State: dlq.StateOpen}}, []string{firstEvent}, ""},
		"all, oldest first":      {dlq.ExportParams{Filter: &dlq.Filter{}}, []string{firstEvent, secondEvent}, ""},
		"none":                   {dlq.ExportParams{Filter: &dlq.Filter{State: dlq.StateReplayed}}, nil, ""},
		"by either id":           {dlq.ExportParams{IDs: []string{secondEvent, first}}, []string{secondEvent, firstEvent}, ""},
		"no ids":                 {dlq.ExportParams{}, nil, ""},
		"one id is unknown":      {dlq.ExportParams{IDs: []string{unknown, first}}, []string{firstEvent}, fault.Partial},
		"the only id is unknown": {dlq.ExportParams{IDs: []string{unknown}}, nil, fault.NotFound},
		"unknown state":          {dlq.ExportParams{Filter: &dlq.Filter{State: "odd"}}, nil, fault.Usage},
	} {
		var got []string
		r, err := b.outbox.Export(b.ctx, tc.params, func(e dlq.Export) error {
			got = append(got, e.Headers[dlq.CorrectsHeader])
			return nil
		})
		require.Equal(t, tc.want, got, name)
		require.EqualValues(t, len(tc.want), r.Written, name)
		if tc.kind == "" {
			require.NoError(t, err, name)
			continue
		}
		requireKind(t, tc.kind, err)
	}
}

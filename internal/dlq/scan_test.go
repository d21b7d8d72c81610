package dlq_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// population makes dead letters that differ in everything a filter can ask for, and returns them newest first.
func population(b *bundle) []dlq.Entry {
	tenants := []*string{nil, ptr("0d2f4b1e-0000-4000-8000-000000000001"), ptr("0d2f4b1e-0000-4000-8000-000000000002")}
	types := []string{"order_canceled", "order_expired", "media_uploaded"}
	aggregates := []string{"vendor_order", "vendor_order", "media"}
	aggregate := uuid.NewString()
	errors := []string{"deadline exceeded after 10s", "100% of quota_used", `path C:\temp refused`, "Ünïcode FEHLER"}
	for i := range 120 {
		d := death{
			Type: types[i%3], Aggregate: aggregates[i%3], Reason: []string{"max_attempts", "invalid_payload"}[i%2],
			Error: errors[i%4], Namespace: []string{"default", "eu"}[i/3%2], Topic: []string{"domain", "billing"}[i/5%2],
			State: []string{"open", "open", "replayed", "discarded"}[i/2%4], Tenant: tenants[i%3],
			At: base().Add(time.Duration(i/2) * time.Second), // two share each second: the id decides
		}
		if i%10 == 0 {
			d.AggregateID = aggregate
		}
		b.die(d)
	}
	entries, err := b.scan(dlq.Filter{}, outbox.NewestFirst).List(b.ctx, 1000)
	require.NoError(b.t, err)
	require.Len(b.t, entries, 120)
	require.True(b.t, slices.IsSortedFunc(entries, func(x, y dlq.Entry) int {
		if c := y.FailedAt.Compare(x.FailedAt); c != 0 {
			return c
		}
		return strings.Compare(y.ID, x.ID)
	}), "newest first")
	return entries
}

func ptr(s string) *string { return &s }

func TestEveryFilterSelectsWhatItSays(t *testing.T) {
	b := setup(t)
	entries := population(b)
	tenant, aggregate := "0d2f4b1e-0000-4000-8000-000000000001", ""
	for _, e := range entries {
		if e.AggregateType == "vendor_order" {
			aggregate = e.AggregateID
		}
	}
	since, until := base().Add(20*time.Second), base().Add(40*time.Second)
	fingerprint := *entries[0].Fingerprint
	for name, tc := range map[string]struct {
		filter dlq.Filter
		wants  func(dlq.Entry) bool
	}{
		"everything":   {dlq.Filter{}, func(dlq.Entry) bool { return true }},
		"state":        {dlq.Filter{State: "discarded"}, func(e dlq.Entry) bool { return e.State == "discarded" }},
		"reason":       {dlq.Filter{State: "open", Reasons: []string{"invalid_payload"}}, func(e dlq.Entry) bool { return e.State == "open" && e.Reason == "invalid_payload" }},
		"two reasons":  {dlq.Filter{Reasons: []string{"invalid_payload", "max_attempts"}}, func(e dlq.Entry) bool { return true }},
		"type":         {dlq.Filter{Types: []string{"order_expired"}}, func(e dlq.Entry) bool { return e.EventType == "order_expired" }},
		"two types":    {dlq.Filter{State: "open", Types: []string{"order_expired", "media_uploaded"}}, func(e dlq.Entry) bool { return e.State == "open" && e.EventType != "order_canceled" }},
		"topic":        {dlq.Filter{State: "open", Topics: []string{"billing"}}, func(e dlq.Entry) bool { return e.State == "open" && *e.Topic == "billing" }},
		"fingerprint":  {dlq.Filter{State: "open", Fingerprints: []string{fingerprint}}, func(e dlq.Entry) bool { return e.State == "open" && *e.Fingerprint == fingerprint }},
		"namespace":    {dlq.Filter{State: "open", Namespaces: []string{"eu"}}, func(e dlq.Entry) bool { return e.State == "open" && e.Namespace == "eu" }},
		"tenant":       {dlq.Filter{State: "open", Tenants: []string{tenant}}, func(e dlq.Entry) bool { return e.State == "open" && e.TenantID != nil && *e.TenantID == tenant }},
		"tenant, all":  {dlq.Filter{Tenants: []string{tenant}}, func(e dlq.Entry) bool { return e.TenantID != nil && *e.TenantID == tenant }},
		"aggregate":    {dlq.Filter{State: "open", AggregateIDs: []string{aggregate}}, func(e dlq.Entry) bool { return e.State == "open" && e.AggregateID == aggregate }},
		"aggregates":   {dlq.Filter{AggregateType: "media"}, func(e dlq.Entry) bool { return e.AggregateType == "media" }},
		"since, until": {dlq.Filter{Since: since, Until: until}, func(e dlq.Entry) bool { return !e.FailedAt.Before(since) && e.FailedAt.Before(until) }},
		"error":        {dlq.Filter{ErrorLike: "DEADLINE"}, func(e dlq.Entry) bool { return strings.Contains(e.ErrorMessage, "deadline") }},
		"percent":      {dlq.Filter{ErrorLike: "0% of"}, func(e dlq.Entry) bool { return strings.Contains(e.ErrorMessage, "0% of") }},
		"underscore":   {dlq.Filter{ErrorLike: "a_u"}, func(e dlq.Entry) bool { return strings.Contains(e.ErrorMessage, "a_u") }},
		"backslash":    {dlq.Filter{ErrorLike: `C:\t`}, func(e dlq.Entry) bool { return strings.Contains(e.ErrorMessage, `C:\t`) }},
		"asterisk":     {dlq.Filter{ErrorLike: "dead*10s"}, func(e dlq.Entry) bool { return strings.Contains(e.ErrorMessage, "deadline") }},
		"quote":        {dlq.Filter{ErrorLike: "' OR true --"}, func(e dlq.Entry) bool { return false }},
		"all together": {
			dlq.Filter{State: "open", Reasons: []string{"max_attempts"}, Types: []string{"order_canceled"}, Topics: []string{"domain"}, Namespaces: []string{"default"}, ErrorLike: "e", Since: base(), Until: until},
			func(e dlq.Entry) bool {
				return e.State == "open" && e.Reason == "max_attempts" && e.EventType == "order_canceled" && *e.Topic == "domain" && e.Namespace == "default" &&
					strings.Contains(strings.ToLower(e.ErrorMessage), "e") && e.FailedAt.Before(until)
			},
		},
	} {
		var want []string
		for _, e := range entries {
			if tc.wants(e) {
				want = append(want, e.ID)
			}
		}
		t.Run(name, func(t *testing.T) {
			got := b.all(b.scan(tc.filter, outbox.NewestFirst), 7)
			require.Equal(t, want, got)
			groups, err := b.store.Groups(b.ctx, tc.filter, "reason", 1000)
			require.NoError(t, err)
			var counted int64
			for _, g := range groups {
				counted += g.Count
			}
			require.EqualValues(t, len(want), counted)
			oldest := b.all(b.scan(tc.filter, outbox.OldestFirst), 1000)
			slices.Reverse(oldest)
			require.Equal(t, want, oldest)
		})
	}
}

func TestACursorContinuesAfterItsRow(t *testing.T) {
	b := setup(t)
	entries := population(b)
	for _, f := range []dlq.Filter{{}, {ErrorLike: "e"}} {
		first := b.scan(f, outbox.NewestFirst)
		page, err := first.List(b.ctx, 13)
		require.NoError(t, err)
		rest := b.scan(f, outbox.NewestFirst)
		require.NoError(t, rest.After(b.ctx, page[12].ID))
		require.Equal(t, b.all(first, 50), b.all(rest, 50))
	}
	require.ErrorIs(t, b.scan(dlq.Filter{}, outbox.NewestFirst).After(b.ctx, uuid.NewString()), outbox.ErrNotFound)
	require.NotEmpty(t, entries)
}

// Causes of one size stay in their places while more of both die in turn.
func TestGroupsOfOneSizeDoNotChangePlaces(t *testing.T) {
	b := setup(t)
	for i, cause := range []string{"no such topic", "deadline exceeded", "deadline exceeded", "no such topic", "no such topic", "deadline exceeded"} {
		b.die(death{Error: cause, At: base().Add(time.Duration(i) * time.Minute)})
		if i%2 == 0 {
			continue
		}
		groups, err := b.store.Groups(b.ctx, dlq.Filter{State: "open"}, "fingerprint", 50)
		require.NoError(t, err)
		require.Equal(t, []string{"no such topic", "deadline exceeded"}, []string{groups[0].SampleError, groups[1].SampleError}, i)
	}
}

func TestGroupsAreTheCauses(t *testing.T) {
	b := setup(t)
	for i := range 30 {
		b.die(death{Error: fmt.Sprintf(`publish "%s" to 10.0.0.%d:443 after %d ms: deadline exceeded`, uuid.NewString(), i, i*7), At: base().Add(time.Duration(i) * time.Minute)})
	}
	newest := ""
	for i := range 12 {
		newest, _ = b.die(death{Reason: "invalid_payload", Error: fmt.Sprintf("data.orderId: %q is not a UUID", fmt.Sprint("x", i)), At: base().Add(time.Duration(i) * time.Hour)})
	}
	b.die(death{Reason: "message_too_large", Error: "message of 10485761 bytes"})
	b.die(death{Reason: "message_too_large", Error: "message of 99999999 bytes", State: "replayed"})

	groups, err := b.store.Groups(b.ctx, dlq.Filter{State: "open"}, "fingerprint", 50)
	require.NoError(t, err)
	require.Len(t, groups, 3)
	require.Equal(t, []int64{30, 12, 1}, []int64{groups[0].Count, groups[1].Count, groups[2].Count})
	require.Equal(t, base(), groups[1].FirstSeen.UTC())
	require.Equal(t, base().Add(11*time.Hour), groups[1].LastSeen.UTC())
	require.Equal(t, newest, groups[1].SampleID)
	require.Contains(t, groups[1].SampleError, "x11")

	for by, want := range map[string][]string{
		"reason": {"max_attempts", "invalid_payload", "message_too_large"}, "type": {"order_canceled"}, "topic": {"domain"},
	} {
		groups, err := b.store.Groups(b.ctx, dlq.Filter{State: "open"}, by, 50)
		require.NoError(t, err)
		var values []string
		for _, g := range groups {
			values = append(values, g.Value)
		}
		require.Equal(t, want, values, by)
	}
	_, err = b.store.Groups(b.ctx, dlq.Filter{}, "error_message; DROP TABLE outbox_dlq", 1)
	require.ErrorContains(t, err, "cannot group by")
}

// However dead letters are counted, the answer is the same: when they were written, in an index, row by row. What is counted
// when they are written follows every change.
func TestGroupsOfEveryWayAgree(t *testing.T) {
	b := setup(t)
	for i := range 40 {
		d := death{Error: fmt.Sprint("code ", string(rune('a'+i%7))), At: base().Add(time.Duration(i) * time.Minute), State: "open"}
		if i%5 == 0 {
			d.Reason = "invalid_payload"
		}
		b.die(d)
	}
	const open = 1_001 // more groups than are looked up one by one
	for _, change := range []string{
		`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'invalid_payload', 'none', 1, now() + i * interval '1 minute' FROM generate_series(1, 9) AS i`,
		`UPDATE outbox_dlq SET state = 'replayed' WHERE id IN (SELECT id FROM outbox_dlq WHERE fingerprint IS NOT NULL ORDER BY failed_at LIMIT 4)`,
		`ALTER TABLE outbox_dlq DISABLE TRIGGER outbox_dlq_refuse_delete; DELETE FROM outbox_dlq WHERE id IN (SELECT id FROM outbox_dlq WHERE state = 'open' ORDER BY failed_at DESC LIMIT 3)`,
		`UPDATE outbox_dlq SET state = 'discarded' WHERE error_reason = 'invalid_payload'`,
		`UPDATE outbox_dlq SET state = 'open' WHERE state = 'discarded' AND fingerprint IS NULL`,
	} {
		b.exec(change)
		for _, by := range dlq.GroupBy() {
			counted, err := b.store.Groups(b.ctx, dlq.Filter{State: "open"}, by, 50)
			require.NoError(t, err)
			require.NotEmpty(t, counted)
			walked, err := b.store.Groups(b.ctx, dlq.Filter{State: "open"}, by, open)
			require.NoError(t, err)
			require.Equal(t, walked, counted, "%s after %s", by, change)
			read, err := b.store.Groups(b.ctx, dlq.Filter{State: "open", Namespaces: []string{"default"}}, by, 50)
			require.NoError(t, err)
			require.Equal(t, read, counted, "%s after %s", by, change)
		}
	}
	var rows int
	require.NoError(t, b.pool.QueryRow(b.ctx, `SELECT count(*) FROM outbox_dlq_causes`).Scan(&rows))
	require.Less(t, rows, 60, "they are added up now and then")
}

func TestIDsMayBeTheDeadLettersOrTheEvents(t *testing.T) {
	b := setup(t)
	first, event := b.die(death{State: "replayed"})
	second := b.deadLetter(event, death{At: base().Add(time.Hour)})
	third := b.deadLetter(event, death{At: base().Add(2 * time.Hour), State: "discarded"})
	unknown := uuid.NewString()
	targets, err := b.store.Resolve(b.ctx, []string{first, event, unknown}, dlq.StateOpen)
	require.NoError(t, err)
	require.Equal(t, []string{first, second, ""}, []string{targets[0].ID, targets[1].ID, targets[2].ID})
	targets, err = b.store.Resolve(b.ctx, []string{event}, dlq.StateDiscarded)
	require.NoError(t, err)
	require.Equal(t, third, targets[0].ID)
	require.Equal(t, []string{second, unknown}, orGiven(b, b.store.Named(b.ctx, dlq.Replay, []string{event, second, unknown, event})), "each once")
}

func orGiven(b *bundle, s dlq.Source) (ids []string) {
	for targets, err := range s {
		require.NoError(b.t, err)
		for _, t := range targets {
			ids = append(ids, or(t.ID, t.Given))
		}
	}
	return ids
}

// A limit of time holds without one of rows.
func TestAScanEndsWhenItsTimeIsOver(t *testing.T) {
	b := setup(t)
	b.many(500 + 1)
	scan := b.scan(dlq.Filter{State: "open", ErrorLike: "nowhere"}, outbox.OldestFirst)
	scan.LookAt(0, time.Nanosecond)
	require.Empty(t, b.all(scan, 10))
	last, looked := scan.Unfinished()
	require.NotEmpty(t, last)
	require.Equal(t, 500, looked)
}

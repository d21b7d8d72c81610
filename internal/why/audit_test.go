package why_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func TestAuditFiltersAndPages(t *testing.T) {
	b := setup(t)
	letter, event := b.die("no")
	b.act(dlq.Discard, letter)
	b.exec(`INSERT INTO outbox_audit (actor, action, note, detail, affected, at) VALUES
	('cron', 'cleanup', NULL, '{"events": {"olderThan": "2026-01-01T00:00:00Z", "deleted": 5}}', 5, now() + interval '1 minute'),
	('ann', 'dlq.replay', 'x', '{"runId": "r-1", "eventIds": []}', 2, now() + interval '2 minutes')`)
	list := func(p dlq.AuditParams) (actions []string, next string) {
		t.Helper()
		page, err := b.outbox.Audit(b.ctx, p, func(r dlq.AuditRow) error {
			actions = append(actions, r.Action)
			require.NotContains(t, string(r.Detail), "eventIds")
			return nil
		})
		require.NoError(t, err)
		return actions, page.Next
	}
	now := time.Now()
	for name, tc := range map[string]struct {
		params dlq.AuditParams
		want   []string
	}{
		"all, newest first":            {dlq.AuditParams{}, []string{"dlq.replay", "cleanup", "dlq.discard"}},
		"actor":                        {dlq.AuditParams{Actor: "tester"}, []string{"dlq.discard"}},
		"action":                       {dlq.AuditParams{Action: "cleanup"}, []string{"cleanup"}},
		"run":                          {dlq.AuditParams{RunID: "r-1"}, []string{"dlq.replay"}},
		"event":                        {dlq.AuditParams{ID: event}, []string{"dlq.discard"}},
		"the event by its dead letter": {dlq.AuditParams{ID: letter}, []string{"dlq.discard"}},
		"another event":                {dlq.AuditParams{ID: uuid.NewString()}, nil},
		"since":                        {dlq.AuditParams{Since: now.Add(90 * time.Second)}, []string{"dlq.replay"}},
		"until":                        {dlq.AuditParams{Until: now.Add(30 * time.Second)}, []string{"dlq.discard"}},
	} {
		got, next := list(tc.params)
		require.Equal(t, tc.want, got, name)
		require.Empty(t, next, name)
	}
	first, next := list(dlq.AuditParams{Page: outbox.Page{Limit: 2}})
	require.Equal(t, []string{"dlq.replay", "cleanup"}, first)
	rest, end := list(dlq.AuditParams{Page: outbox.Page{Limit: 2, Cursor: next}})
	require.Equal(t, []string{"dlq.discard"}, rest)
	require.Empty(t, end)
	// More than one statement reads.
	b.exec("INSERT INTO outbox_audit (actor, action) SELECT 'many', 'x' FROM generate_series(1, 2500)")
	many, _ := list(dlq.AuditParams{Actor: "many"})
	require.Len(t, many, 2500)
}

func TestAuditRefusals(t *testing.T) {
	t.Parallel()
	for _, p := range []dlq.AuditParams{
		{ID: "odd"}, {Page: outbox.Page{Limit: -1}}, {Page: outbox.Page{Cursor: "odd"}}, {Page: outbox.Page{Cursor: "-1"}},
	} {
		requireKind(t, fault.Usage, p.Check())
	}
}

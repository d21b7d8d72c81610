package ui_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A topic is paused and resumed on its page, with a note, and every open page shows it at once.
func TestATopicIsPausedAndResumed(t *testing.T) {
	b := setup(t, operators)
	paused := func() int64 { return b.count(`SELECT count(*) FROM outbox_pauses`) }
	_, _, body := b.get("/topics")
	require.Contains(t, body, "/topics/billing/pause")
	status, _, _ := b.form("/topics/billing/pause", "note", " ")
	require.Equal(t, http.StatusBadRequest, status)
	status, to, _ := b.form("/topics/billing/pause", "note", "the consumer is migrated", "for", "2h")
	require.Equal(t, http.StatusSeeOther, status)
	require.Equal(t, "/topics", to)
	status, _, body = b.form("/topics/billing/pause", "note", "x", "for", "soon")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "such as 2h")
	require.Contains(t, body, `href="/topics"`, "a way back")
	status, _, body = b.form("/topics/biling/pause", "note", "x")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "billing", "the name that was meant")
	require.EqualValues(t, 1, paused())

	_, _, body = b.get("/topics")
	require.Contains(t, body, "by <bdi>ann@example.com</bdi>")
	require.Contains(t, body, "the consumer is migrated")
	require.Contains(t, body, "/topics/billing/resume")
	_, _, body = b.get("/")
	require.Contains(t, body, "Paused by ann@example.com for ")
	require.Contains(t, body, "outboxctl resume --topic billing")

	status, to, body = b.form("/topics/billing/resume", "note", "done")
	require.Equal(t, []any{http.StatusSeeOther, "/topics"}, []any{status, to}, body)
	require.Zero(t, paused())
	_, _, body = b.get("/topics")
	require.NotContains(t, body, "/topics/billing/resume")
	status, _, body = b.form("/topics/billing/resume", "note", "done")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, "is not paused")
	require.EqualValues(t, 2, b.count(`SELECT count(*) FROM outbox_audit WHERE action IN ('pause', 'resume') AND actor = 'ann@example.com' AND detail ->> 'via' = 'ui' AND detail ? 'requestId'`))
}

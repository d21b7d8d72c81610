package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

// ill makes the open dead letter one whose payload is wrong.
const ill = `SET session_replication_role = replica;
UPDATE outbox_events SET payload_json = '{"data": {"orderId": 7, "big": 9007199254740993}}' WHERE id = '` + eventID + `';
UPDATE outbox_dlq SET payload_json = '{"data": {"orderId": 7, "big": 9007199254740993}}', error_reason = 'invalid_payload', attempt_count = 1, error_message = E'data.orderId: 7 is not a UUID\nsecond line' WHERE id = '` + deadID + `';
RESET session_replication_role`

const rightOrder = `{"orderId": "7f2c0b60-0000-4000-8000-000000000001", "checkoutGroupId": "7f2c0b60-0000-4000-8000-000000000002", "canceledAt": "2026-03-01T12:00:00Z"}`

// A letter that would fail again unchanged is edited first: payload beside schema, what is wrong, the difference, one confirmation,
// one run of the audit.
func TestAPayloadIsEditedOnThePage(t *testing.T) {
	b := setup(t, revealing)
	_, err := b.db.Pool.Exec(t.Context(), ill)
	require.NoError(t, err)
	_, _, body := b.get("/dead-letters/" + deadID)
	require.Contains(t, body, "<h1><bdi>data.orderId: 7 is not a UUID</bdi></h1>", "what failed is the headline, in one line")
	require.NotContains(t, body, "^J", "elsewhere too; all of it is under Error")
	require.Contains(t, body, "died of invalid_payload after 1 attempt<")
	require.Less(t, strings.Index(body, "Edit and replay…"), strings.Index(body, `value="discard"`), "the right action is first")
	require.Less(t, strings.Index(body, `value="discard"`), strings.Index(body, `value="replay"`))

	edit := "/dead-letters/" + deadID + "/edit"
	status, _, body := b.form(edit, "note", " ")
	require.Equal(t, http.StatusBadRequest, status, body)
	status, _, body = b.form(edit, "note", "it was a number")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "9007199254740993", "every digit")
	require.Contains(t, body, `data-mark="orderId"`)
	require.Contains(t, body, `<mark>`)
	require.Contains(t, body, `&#34;checkoutGroupId&#34;`, "the schema is beside it")
	require.NotContains(t, body, `name="send"`)
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'payload.reveal' AND note = 'it was a number'`))

	_, _, body = b.form(edit, "note", "it was a number", "data", `{"orderId": 8}`)
	require.Contains(t, body, "data.orderId", "what is wrong")
	require.NotContains(t, body, `name="send"`)
	_, _, body = b.form(edit, "note", "it was a number", "data", rightOrder)
	require.Contains(t, body, `<del>-   &#34;orderId&#34;: 7</del>`)
	require.Contains(t, body, `<ins>+   &#34;orderId&#34;: &#34;7f2c0b60-`)
	require.Contains(t, body, `name="send"`)
	require.Zero(t, b.count(`SELECT count(*) FROM outbox_events WHERE headers ? 'corrects'`), "nothing is sent yet")

	status, to, body := b.form(edit, "note", "it was a number", "data", rightOrder, "send", "1")
	require.Equal(t, http.StatusSeeOther, status, body)
	require.Regexp(t, "^/events/", to)
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_events WHERE headers ->> 'corrects' = $1`, eventID))
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'dlq.edit' AND actor = 'ann@example.com' AND note = 'it was a number' AND detail ->> 'via' = 'ui' AND detail ? 'runId'`))
	status, _, body = b.form(edit, "note", "again", "data", rightOrder, "send", "1")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, "is corrected already")
}

// The payload is looked at, not only the reason: one that its type no longer takes is edited first whatever it died of, one that it
// takes is replayed first. Only an operator is told, and nothing of the payload.
func TestWhatNoLongerFitsIsEditedFirst(t *testing.T) {
	b := setup(t, revealing)
	viewer := setup2(t, b, "", revealing, func(c *ui.Config) {
		c.Identify = func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "eve"}, nil }
	})
	const told = "does not fit its type as the catalogue has it now"
	order := func() (edit, discard, replay int) {
		_, _, body := b.get("/dead-letters/" + deadID)
		require.Contains(t, body, "for the reason max_attempts")
		require.NotContains(t, body, secret)
		require.Equal(t, strings.Contains(body, told), strings.Contains(body, `class="button primary"`))
		return strings.Index(body, "Edit and replay…"), strings.Index(body, `value="discard"`), strings.Index(body, `value="replay"`)
	}
	edit, discard, replay := order()
	require.IsIncreasing(t, []int{edit, discard, replay})
	_, _, body := b.get("/dead-letters/" + deadID)
	require.Contains(t, body, told)
	_, _, body = viewer.get("/dead-letters/" + deadID)
	require.NotContains(t, body, told)

	_, err := b.db.Pool.Exec(t.Context(), `SET session_replication_role = replica;
UPDATE outbox_dlq SET payload_json = '{"version": 1, "eventId": "`+eventID+`", "occurredAt": "2026-03-01T12:00:00Z", "data": `+rightOrder+`}' WHERE id = '`+deadID+`';
RESET session_replication_role`)
	require.NoError(t, err)
	edit, discard, replay = order()
	require.IsIncreasing(t, []int{replay, discard, edit})
}

// Without the right to see payloads there is nothing to edit.
func TestEditingNeedsReveal(t *testing.T) {
	b := setup(t, operators)
	_, _, body := b.get("/dead-letters/" + deadID)
	require.NotContains(t, body, "Edit and replay")
	status, _, _ := b.form("/dead-letters/"+deadID+"/edit", "note", "x")
	require.Equal(t, http.StatusNotFound, status)
}

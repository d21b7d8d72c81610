package ui_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

// named is who makes a request of a test: its header Actor.
func named(c *ui.Config) {
	operators(c)
	c.Identify = func(r *http.Request) (ui.Identity, error) {
		name := r.Header.Get("Actor")
		if name == "" {
			name = "ann@example.com"
		}
		return ui.Identity{Name: name, Role: ui.Operator, Auth: "test"}, nil
	}
}

func (b *bundle) database() (name string) {
	b.t.Helper()
	require.NoError(b.t, b.db.Pool.QueryRow(b.t.Context(), `SELECT current_database()`).Scan(&name))
	return name
}

// waiting are three events that wait after a failed attempt, and one that is due.
const waiting = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, attempt_count, last_error, next_attempt_at, created_at)
SELECT ('00000000-0000-7000-8000-0000000000b' || i)::uuid, CASE i WHEN 3 THEN event_type_enum 'order_created' ELSE 'order_canceled' END, 'vendor_order', gen_random_uuid(), '{}', 3, 'no', CASE i WHEN 4 THEN now() ELSE now() + interval '1 hour' END, now() - interval '1 minute'
  FROM generate_series(1, 4) AS i`

// What waits after a failed attempt is tried now: one event, and what a filter chooses. What is due needs nothing.
func TestWaitingEventsAreRetriedNow(t *testing.T) {
	b := setup(t, operators)
	_, err := b.db.Pool.Exec(t.Context(), waiting)
	require.NoError(t, err)
	due := func() int64 {
		return b.count(`SELECT count(*) FROM outbox_events WHERE last_error = 'no' AND next_attempt_at <= now()`)
	}
	_, _, body := b.get("/events/00000000-0000-7000-8000-0000000000b4")
	require.NotContains(t, body, `value="retry"`, "it is due")
	_, _, body = b.get("/events/00000000-0000-7000-8000-0000000000b1")
	require.Contains(t, body, `value="retry"`)
	confirm := func(plan, count string) {
		t.Helper()
		b.reaches(strings.TrimPrefix(plan, "/plans/"), "ready")
		status, _, body := b.form(plan+"/run", "confirm.count", count, "confirm.database", b.database(), "note", "the topic is back")
		require.Equal(t, http.StatusSeeOther, status, body)
		b.reaches(strings.TrimPrefix(plan, "/plans/"), "done")
	}
	_, plan, body := b.form("/plans", "action", "retry", "ids", "00000000-0000-7000-8000-0000000000b1")
	require.NotEmpty(t, plan, body)
	_, _, body = b.get(plan)
	require.Contains(t, body, `<dialog open class="ask"`, "one row is a small dialog")
	require.NotContains(t, body, `class="bar"`)
	require.Contains(t, body, "00000000-0000-7000-8000-0000000000b1")
	confirm(plan, "1")
	require.EqualValues(t, 2, due())

	_, _, body = b.get("/events?status=pending&type=order_canceled")
	require.Contains(t, body, "Retry all matching…")
	_, plan, body = b.form("/plans", "action", "retry", "filter.type", "order_canceled")
	require.NotEmpty(t, plan, body)
	_, _, body = b.get(plan)
	require.NotContains(t, body, `class="ask"`, "a filter chose it")
	confirm(plan, "1")
	require.EqualValues(t, 3, due(), "that of another type waits")
	require.EqualValues(t, 2, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'event.retry' AND note = 'the topic is back'`))
}

// A discard is taken back on the page of its run, and in the audit; what cannot be says why.
func TestARunIsUndone(t *testing.T) {
	b := setup(t, operators)
	_, _, body := b.get("/plans/" + b.planID())
	require.Contains(t, body, `action="/audit/`+b.planID()+`/undo"`)
	_, _, body = b.get("/audit")
	require.Contains(t, body, `action="/audit/`+b.planID()+`/undo"`)
	require.Equal(t, 1, strings.Count(body, "dlq.discard</a>"), "one line per run")
	status, plan, body := b.form("/audit/" + b.planID() + "/undo")
	require.Equal(t, http.StatusSeeOther, status, body)
	b.reaches(strings.TrimPrefix(plan, "/plans/"), "ready")
	status, _, body = b.form(plan+"/run", "confirm.count", "1", "confirm.database", b.database())
	require.Equal(t, http.StatusSeeOther, status, body)
	b.reaches(strings.TrimPrefix(plan, "/plans/"), "done")
	require.EqualValues(t, 2, b.count(`SELECT count(*) FROM outbox_dlq WHERE state = 'open'`))
	_, _, body = b.get(plan)
	require.Contains(t, body, "It takes back the run")

	status, _, body = b.form("/topics/domain/pause", "note", "a test")
	require.Equal(t, http.StatusSeeOther, status, body)
	_, _, body = b.get("/audit?action=pause")
	run := linked(t, body, `action="(/audit/[^"]*)/undo"`)
	status, to, body := b.form(run + "/undo")
	require.Equal(t, http.StatusSeeOther, status, body)
	require.Equal(t, "/topics", to)
	require.Zero(t, b.count(`SELECT count(*) FROM outbox_pauses`))
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'resume' AND detail ->> 'via' = 'ui'`))
}

// Of two operators who confirm a plan, the second is told whose run it is.
func TestTheSecondOperatorIsTold(t *testing.T) {
	b := setup(t, named)
	_, plan, _ := b.form("/plans", "action", "discard", "ids", deadID)
	as := func(name string) string {
		status, header, body := b.send(http.MethodPost, plan+"/run", formType, "confirm.count=1&note=x&confirm.database="+b.database(), "Actor", name)
		require.Equal(t, http.StatusSeeOther, status, body)
		_, _, body = b.get(header.Get("Location"), "Actor", name)
		return body
	}
	require.NotContains(t, as("ann"), "confirmed this plan before you")
	require.Contains(t, as("bob"), "<bdi>ann</bdi> confirmed this plan before you")
}

// A run that was asked to stop says so until it has.
func TestARunThatIsStopping(t *testing.T) {
	b := setup(t, operators)
	_, plan, _ := b.form("/plans", "action", "replay", "ids", deadID)
	_, err := b.db.Pool.Exec(t.Context(), `UPDATE outbox_plans SET state = 'running', lease = gen_random_uuid(), lease_until = now() + interval '1 hour', started_at = now(), runner = 'ann', options = '{}',
		watched = '{"published": 1, "dead": 2, "failing": 0, "waiting": 0, "steps": [{"rows": 1, "published": 1, "dead": 0, "failing": 0, "waiting": 0}, {"rows": 2, "published": 0, "dead": 2, "failing": 0, "waiting": 0}]}' WHERE state = 'ready'`)
	require.NoError(t, err)
	_, _, body := b.get(plan)
	require.Contains(t, body, "Stop after the rows it is at")
	require.Contains(t, body, "Step by step")
	require.Contains(t, body, `data-label="Died again">2<`)
	status, _, body := b.form(plan + "/stop")
	require.Equal(t, http.StatusSeeOther, status, body)
	_, _, body = b.get(plan)
	require.Contains(t, body, `s-stopping">stopping`)
	require.Contains(t, body, "<bdi>ann@example.com</bdi> asked for it")
	require.NotContains(t, body, "Stop after the rows it is at")
}

// Who can sign out is offered to, and sees nothing afterwards.
func TestSignOut(t *testing.T) {
	left := 0
	b := setup(t, func(c *ui.Config) { c.Leave = func(http.ResponseWriter, *http.Request) { left++ } })
	_, _, body := b.get("/")
	require.Contains(t, body, `action="/sign-out"`)
	status, _, body := b.form("/sign-out")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, body, "you have signed out")
	require.NotContains(t, body, "eve@example.com")
	require.Equal(t, 1, left)
	status, _, _ = b.get("/sign-out")
	require.NotEqual(t, http.StatusOK, status)
}

// What is offered first for a cause is what helps: no replay where it would fail again, or nothing is left to send.
func TestTheFirstOfferForACauseHelps(t *testing.T) {
	b := setup(t, revealing)
	wants := map[string]string{
		"max_attempts": "Replay Discard", "rejected_by_broker": "Replay Discard", "expired": "Replay Discard", "erased": "Discard",
		"invalid_payload": "Edit one Discard Replay", "message_too_large": "Edit one Discard Replay",
		"aggregate_mismatch": "What helps Discard Replay", "unknown_event_type": "What helps Replay Discard",
	}
	_, err := b.db.Pool.Exec(t.Context(), `
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, fingerprint)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', r, 'no', 10, r::text FROM unnest(enum_range(NULL::outbox_dlq_reason)) AS r`)
	require.NoError(t, err)
	require.EqualValues(t, len(wants), b.count(`SELECT count(*) FROM outbox_dlq WHERE fingerprint = error_reason::text`), "every reason there is")
	action := regexp.MustCompile(`>([^<>]+)…</(?:a|button)>`)
	offered := func(by, value string) string {
		_, _, body := b.get("/causes?by=" + by)
		_, after, _ := strings.Cut(body, `name="filter.`+by+`" value="`+value+`"`)
		form, _, _ := strings.Cut(after, "</form>")
		var names []string
		for _, found := range action.FindAllStringSubmatch(form, -1) {
			names = append(names, found[1])
		}
		return strings.Join(names, " ")
	}
	for reason, want := range wants {
		for _, by := range []string{"reason", "fingerprint"} {
			require.Eventually(t, func() bool { return offered(by, reason) != "" }, waitFor, tick, reason)
			require.Equal(t, want, offered(by, reason), "%s by %s", reason, by)
		}
	}
	require.Equal(t, "Replay Discard", offered("type", "order_canceled"), "they died of different things: the plan tells them apart")
	_, _, body := b.get("/causes?by=reason")
	require.Regexp(t, `<a class="button primary" href="/dead-letters/[0-9a-f-]{36}">Edit one…`, body, "which leads to one of them")
}

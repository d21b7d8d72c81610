package ui_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

// more adds open dead letters of one cause, so many of which died in each of the last hours.
const more = `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, fingerprint, failed_at)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'invalid_payload', 'bad ' || i, 1, 'f2', now() - make_interval(mins => 30 + 60 * (i % $2::int)) FROM generate_series(1, $1::int) AS i`

// An open page asks what changed: nothing, until the figures do.
func TestPartsAreSentWhenTheyChanged(t *testing.T) {
	b := setup(t, func(c *ui.Config) { c.Refresh = time.Hour })
	status, header, body := b.get("/parts/causes")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "no such topic")
	version := header.Get("Outboxctl-Version")
	status, _, body = b.get("/parts/causes?v=" + version)
	require.Equal(t, http.StatusNoContent, status)
	require.Empty(t, body)
	status, _, _ = b.get("/parts/causes?by=reason&v=" + version)
	require.Equal(t, http.StatusOK, status, "another page")
	status, _, _ = b.get("/parts/causes?nonsense=1&v=" + version)
	require.Equal(t, http.StatusBadRequest, status)
}

// A list that is filtered says how many rows match as far as that is cheap, and what came since it was read.
func TestAListSaysHowManyAndWhatIsNewer(t *testing.T) {
	b := setup(t, func(c *ui.Config) { c.Refresh = time.Hour })
	_, err := b.db.Pool.Exec(t.Context(), more, 10_001, 1)
	require.NoError(t, err)
	for address, want := range map[string]string{
		"/dead-letters?reason=invalid_payload": "10,000&#43; dead letters", "/dead-letters?fingerprint=f1": `<p class="count">1 dead letter</p>`,
		"/dead-letters": `<p class="count">1 dead letter</p>`, // as of the snapshot
	} {
		_, _, body := b.get(address)
		require.Contains(t, body, want, address)
	}
	_, _, body := b.get("/dead-letters?error-like=x")
	require.NotContains(t, body, `class="count"`, "every row would have to be looked at")

	read := time.Now().UTC().Add(time.Minute)
	newer := "/parts/newer/dead-letters?v=" + url.QueryEscape(read.Format(time.RFC3339Nano))
	status, _, _ := b.get(newer)
	require.Equal(t, http.StatusNoContent, status)
	_, err = b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'max_attempts', 'no', 1, now() + interval '2 minutes' FROM generate_series(1, 12)`)
	require.NoError(t, err)
	status, _, body = b.get(newer)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "12 newer, show", body)
	status, _, body = b.get(newer + "&error-like=n*o&type=order_canceled")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "12 newer, show", body, "also of a search")
	status, _, _ = b.get(newer + "&reason=invalid_payload")
	require.Equal(t, http.StatusNoContent, status, "none of them matches")
	status, _, _ = b.get("/parts/newer/dead-letters?v=nonsense")
	require.Equal(t, http.StatusBadRequest, status)
}

func TestCausesShowDeathsPerHour(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), more, 9, 3)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, body := b.get("/causes")
		return strings.Contains(body, "9 deaths in the last 24 hours, 3 in the last one, at most 3 in one")
	}, waitFor, tick)
}

// An examination is asked for, kept for a minute, and made again on request.
func TestDoctorIsAskedOnceAMinute(t *testing.T) {
	asked := 0
	b := setup(t, func(c *ui.Config) {
		examine := c.Doctor
		c.Doctor = func(ctx context.Context) ([]ui.Finding, error) { asked++; return examine(ctx) }
	})
	for range 3 {
		_, _, body := b.get("/doctor")
		require.Contains(t, body, "VACUUM outbox_events")
	}
	require.Equal(t, 1, asked)

	none := setup2(t, b, "")
	status, _, _ := none.get("/doctor")
	require.Equal(t, http.StatusNotFound, status)
	status, _, body := none.get("/settings")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "its own configuration")
}

// A cause that was met before says what was done about it, and what came of that.
func TestCausesShowWhatWasDoneBefore(t *testing.T) {
	b := setup(t, operators)
	b.kill(3, "max_attempts")
	plan := b.plan("ready", "action", "replay", "filter.fingerprint", "f2", "note", "broker is back")
	_, _, _ = b.run(plan)
	b.reaches(plan.ID, "done")
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, topic, fingerprint, failed_at)
SELECT event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, 11, topic, fingerprint, now() + interval '1 second' FROM outbox_dlq WHERE state = 'replayed' LIMIT 1`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, body := b.get("/causes")
		return strings.Contains(body, "3 replayed, 1 died again; last by ann@example.com") && strings.Contains(body, "1 discarded; last by bob")
	}, waitFor, tick)
}

// ordered is a dead event and one that waits for it, because they have the same ordering key.
const ordered = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key, dead_at, attempt_count, last_error)
VALUES ('00000000-0000-7000-8000-0000000000c1', 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'default/a', now(), 10, 'no'),
       ('00000000-0000-7000-8000-0000000000c2', 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'default/a', NULL, 0, NULL);
INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT '00000000-0000-7000-8000-0000000000dc', id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', last_error, 10
  FROM outbox_events WHERE ordering_key = 'default/a' AND dead_at IS NOT NULL`

// The page filters by what others wait for, as the command line does, and changes what the list shows.
func TestDeadLettersThatOthersWaitFor(t *testing.T) {
	b := setup(t, operators)
	_, err := b.db.Pool.Exec(t.Context(), ordered)
	require.NoError(t, err)
	status, _, body := b.get("/dead-letters?blocking=true")
	require.Equal(t, http.StatusOK, status, body)
	for _, want := range []string{
		"/dead-letters/00000000-0000-7000-8000-0000000000dc", "outboxctl dlq list --blocking<", `aria-label="Remove the filter blocking"`,
		`<option value="true" selected>yes</option>`, `<input type="hidden" name="filter.blocking" value="true">`,
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, deadID)
	_, _, body = b.get("/dead-letters?blocking=false")
	require.Contains(t, body, deadID)
	status, _, body = b.get("/dead-letters?blocking=yes")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "neither true nor false")

	require.EqualValues(t, 1, b.plan("ready", "action", "replay", "filter.blocking", "true", "note", "broker is back").Total)
}

// The trace of an event is named, also to those who may not read its headers, and linked where traces have an address.
func TestTheTraceOfAnEvent(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	b := setup(t, func(c *ui.Config) { c.TraceURL = "https://traces.test/t/{trace_id}?x=1" })
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, headers) VALUES ('00000000-0000-7000-8000-0000000000e9',
		'order_canceled', 'vendor_order', '00000000-0000-7000-8000-00000000aaab', '{}', '{"traceparent": "00-`+trace+`-b7ad6b7169203331-01"}')`)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
		SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'x', 1 FROM outbox_events WHERE id = '00000000-0000-7000-8000-0000000000e9'`)
	require.NoError(t, err)
	for _, of := range []string{"/events/", "/dead-letters/"} {
		_, _, page := b.get(of + "00000000-0000-7000-8000-0000000000e9")
		require.Contains(t, page, `<a href="https://traces.test/t/`+trace+`?x=1">`+trace+`</a>`, of)
	}
	_, _, page := b.get("/events/00000000-0000-7000-8000-0000000000e1")
	require.NotContains(t, page, "Trace</dt>")
}

// linked finds the address that a pattern captures on a page.
func linked(t *testing.T, page, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(page)
	require.NotNil(t, found, page)
	return html.UnescapeString(found[1])
}

// The link of a list shows the same rows tomorrow.
func TestACopiedLinkKeepsItsTime(t *testing.T) {
	b := setup(t, nil)
	_, _, page := b.get("/events?since=24h&status=published")
	require.Regexp(t, `^/events\?since=20\d\d-\d\d-\d\dT[^&]+Z&status=published$`, linked(t, page, `data-link="([^"]*)"`))
	_, _, page = b.get("/dead-letters?reason=max_attempts")
	require.Equal(t, "/dead-letters?reason=max_attempts", linked(t, page, `data-link="([^"]*)"`), "nothing is narrowed that was not")
}

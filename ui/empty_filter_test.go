package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

// A filter whose value is empty is a variable that was not set: with the others alone the set would be wider.
func TestAnEmptyFilterIsRefused(t *testing.T) {
	b := setup(t, operators)
	before := b.count(`SELECT count(*) FROM outbox_plans`)
	refused := func(name, want string, status int, body string) {
		t.Helper()
		require.Equal(t, http.StatusBadRequest, status, "%s: %s", name, body)
		require.Contains(t, body, want, name)
	}
	for action, names := range map[string][]string{"replay": ui.DeadLetterNames(), "republish": ui.EventNames()} {
		for _, name := range names {
			if name == "state" || name == "status" {
				continue // the action says which
			}
			other, value := "type", "order_canceled"
			if name == other {
				other, value = "until", "0s"
			}
			for _, given := range [][]string{{""}, {" \t"}, {"order_canceled", " "}} {
				fields := []string{"action", action, "filter." + other, value}
				for _, v := range given {
					fields = append(fields, "filter."+name, v)
				}
				status, _, body := b.form("/plans", fields...)
				refused(fmt.Sprint(fields), name+" must not be empty", status, body)
			}
		}
	}
	for path, names := range map[string][]string{"/dead-letters": ui.DeadLetterNames(), "/events": ui.EventNames(), "/audit": ui.AuditNames()} {
		for _, name := range names {
			status, _, _ := b.get(path + "?" + name + "=")
			require.Equal(t, http.StatusSeeOther, status, "the form of a page sends every field it has")
		}
	}
	status, _, body := b.form("/plans", "action", "replay", "filter.since", "2h", "filter.since", "2000h")
	refused("two beginnings", "takes one value", status, body)
	require.Equal(t, before, b.count(`SELECT count(*) FROM outbox_plans`))
}

// Dead letters without a topic are a cause, too, but one that no filter chooses: a button would change all others with them.
func TestACauseWithoutAValue(t *testing.T) {
	b := setup(t, operators)
	const nameless = "00000000-0000-7000-8000-0000000000d9"
	_, err := b.db.Pool.Exec(t.Context(), `
INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT $1::text::uuid, id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'no topic is known', 1 FROM outbox_events WHERE id = $2::text::uuid`, nameless, eventID)
	require.NoError(t, err)
	for _, by := range []string{"topic", "fingerprint"} {
		var body string
		require.Eventually(t, func() bool {
			_, _, body = b.get("/causes?by=" + by)
			return strings.Contains(body, `href="/dead-letters/`+nameless+`"`)
		}, waitFor, tick, "it leads to its newest row")
		require.NotContains(t, body, `name="filter.`+by+`" value=""`)
		require.Contains(t, body, `name="filter.`+by+`" value="`, "the others can be changed")
		require.NotContains(t, body, `href="/dead-letters"><bdi>`)
	}
	_, _, body := b.get("/")
	require.Contains(t, body, `href="/dead-letters/`+nameless+`"`)
}

package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where waiting is shown, what waits behind a dead event of its ordering key is shown, and leads to its key.
func TestParkedEventsAreShown(t *testing.T) {
	b := setup(t, operators)
	_, err := b.db.Pool.Exec(t.Context(), ordered)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, body := b.get("/")
		return strings.Contains(body, "<strong>1 parked</strong>") && strings.Contains(body, "Blocked by a dead event: 1 ordering key; parked behind it: 1 event, the oldest for") &&
			strings.Contains(body, `href="/dead-letters?blocking=true"`)
	}, waitFor, tick)
	const key = "/ordering-keys?key=default%2fa"
	for address, wants := range map[string][]string{
		"/dead-letters": {"blocks 1 event", `/ordering-keys?key=default%2Fa`},
		"/dead-letters/00000000-0000-7000-8000-0000000000dc": {"1 event parked behind it", `/ordering-keys?key=default%2Fa`},
		"/events/00000000-0000-7000-8000-0000000000c2":       {`s-parked">parked`, `/ordering-keys?key=default%2Fa`},
		"/topics": {`data-label="Parked">1<`},
		"/events": {`/events/00000000-0000-7000-8000-0000000000c2">order_canceled</a>`, `<span class="state s-parked">parked</span>`},
		key:       {`s-parked">parked`, "Its head is dead", "Parked behind it: 1 event", "/dead-letters/00000000-0000-7000-8000-0000000000c1", "/events/00000000-0000-7000-8000-0000000000c2", `value="replay"`, `value="discard"`, "outboxctl why 00000000-0000-7000-8000-0000000000c1"},
	} {
		status, _, body := b.get(address)
		require.Equal(t, http.StatusOK, status, body)
		for _, want := range wants {
			require.Contains(t, body, want, address)
		}
	}
	// Discarded, the head lets the key go; the event's id is as good as the dead letter's.
	_, plan, body := b.form("/plans", "action", "discard", "ids", "00000000-0000-7000-8000-0000000000c1")
	require.NotEmpty(t, plan, body)
	var name string
	require.NoError(t, b.db.Pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))
	status, _, body := b.form(plan+"/run", "confirm.count", "1", "confirm.database", name, "note", "obsolete")
	require.Equal(t, http.StatusSeeOther, status, body)
	b.reaches(strings.TrimPrefix(plan, "/plans/"), "done")
	_, _, body = b.get(key)
	require.Contains(t, body, "Waiting behind it: 0 events")
	_, _, body = b.get("/ordering-keys?key=" + url.QueryEscape("<none>"))
	require.Contains(t, body, "Nothing waits in this key")
	status, _, _ = b.get("/ordering-keys")
	require.Equal(t, http.StatusBadRequest, status)
}

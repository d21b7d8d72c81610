package ui_test

import (
	"bufio"
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
)

// linked finds the address that a pattern captures on a page.
func linked(t *testing.T, page, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(page)
	require.NotNil(t, found, page)
	return html.UnescapeString(found[1])
}

// A list can be taken as a file: every row that matches, as the API writes it, and none that came after the list was read.
func TestAListIsExported(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), more, 2_500, 1)
	require.NoError(t, err)
	_, _, page := b.get("/dead-letters?fingerprint=f2&limit=10&since=24h")
	file := linked(t, page, `href="(/export/dead-letters[^"]*)"`)
	b.kill(3, "max_attempts") // of the same cause, now
	status, header, body := b.get(file)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, `attachment; filename="dead-letters.jsonl"`, header.Get("Content-Disposition"))
	require.NotContains(t, body, secret)
	ids := map[string]bool{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		var row dlq.Entry
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row), lines.Text())
		require.Equal(t, "f2", *row.Fingerprint)
		ids[row.ID] = true
	}
	require.Len(t, ids, 2_500)

	for address, want := range map[string]int{
		"/export/events": http.StatusOK, "/export/audit?action=dlq.discard": http.StatusOK, "/export/runs": http.StatusNotFound,
		"/export/dead-letters?limit=5": http.StatusBadRequest, "/export/dead-letters?typ=x": http.StatusBadRequest,
	} {
		status, _, body := b.get(address)
		require.Equal(t, want, status, "%s: %s", address, body)
	}
}

// The link of a list shows the same rows tomorrow.
func TestACopiedLinkKeepsItsTime(t *testing.T) {
	b := setup(t, nil)
	_, _, page := b.get("/events?since=24h&status=published")
	require.Regexp(t, `^/events\?since=20\d\d-\d\d-\d\dT[^&]+Z&status=published$`, linked(t, page, `data-link="([^"]*)"`))
	_, _, page = b.get("/dead-letters?reason=max_attempts")
	require.Equal(t, "/dead-letters?reason=max_attempts", linked(t, page, `data-link="([^"]*)"`), "nothing is narrowed that was not")
}

package ui_test

import (
	"html"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/registry"
)

// Every type of the catalogue has a page, and the call that it shows emits an event of that type.
func TestTheSampleCallsOfTheCatalogueWork(t *testing.T) {
	b := setup(t, nil)
	call := regexp.MustCompile(`<code>(SELECT id FROM outbox_emit[^<]*)</code>`)
	_, _, list := b.get("/catalogue")
	for _, known := range registry.New().List() {
		require.Contains(t, list, `/catalogue/`+known.Type+`?namespace=`)
		status, _, body := b.get("/catalogue/" + known.Type)
		require.Equal(t, http.StatusOK, status, body)
		require.Contains(t, body, "outboxctl emit --type "+known.Type)
		found := call.FindStringSubmatch(body)
		require.NotNil(t, found, body)
		var id string
		require.NoError(t, b.db.Pool.QueryRow(t.Context(), html.UnescapeString(found[1])).Scan(&id), found[1])
		require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_events WHERE id = $1 AND event_type::text = $2`, id, known.Type))
	}
	status, _, _ := b.get("/catalogue/nonsense")
	require.Equal(t, http.StatusNotFound, status)
}

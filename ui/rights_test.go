package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A role that may not read the figures is told so. It is not told that nothing is dead, waits or runs.
func TestNoRightsAreAnError(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), `REVOKE ALL ON outbox_dlq FROM outbox_viewer`)
	require.NoError(t, err)
	late := setup2(t, b, "")
	for address, never := range map[string]string{
		"/": "Nothing needs attention", "/causes": "No dead letter is open", "/topics": `data-label="Dead"`, "/publishers": "No publisher is there",
	} {
		require.Eventually(t, func() bool {
			_, _, body := late.get(address)
			return strings.Contains(body, "There are no figures: ") && strings.Contains(body, "permission denied for table outbox_dlq")
		}, waitFor, tick, address)
		_, _, body := late.get(address)
		require.NotContains(t, body, never, address)
	}
	status, _, body := late.get("/dead-letters")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, "permission denied for table outbox_dlq")
}

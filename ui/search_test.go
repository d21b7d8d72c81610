package ui_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// A person finds what they paste from a list, a log or a chat; several matches are links.
func TestASearchFindsWhatIsPasted(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), ordered)
	require.NoError(t, err)
	for pasted, to := range map[string]string{
		"00000000…000000d3": "/dead-letters/" + deadID, "00000000...000000e1": "/events/00000000-0000-7000-8000-0000000000e1", "0000000000d3": "/dead-letters/" + deadID,
		"default/a": "/ordering-keys?key=default%2Fa", "a": "/ordering-keys?key=default%2Fa", "such topic": "/dead-letters?error-like=such+topic&state=all",
	} {
		status, header, body := b.get("/search?q=" + url.QueryEscape(pasted))
		require.Equal(t, http.StatusSeeOther, status, "%s: %s", pasted, body)
		require.Equal(t, to, header.Get("Location"), pasted)
	}
	for pasted, links := range map[string][]string{
		"f1": {"/dead-letters?fingerprint=f1"}, "order_canceled": {"/events?type=order_canceled", "/dead-letters?type=order_canceled"},
	} {
		status, header, body := b.get("/search?q=" + url.QueryEscape(pasted))
		if len(links) == 1 {
			require.Equal(t, links[0], header.Get("Location"), pasted)
			continue
		}
		require.Equal(t, http.StatusOK, status, body)
		for _, link := range links {
			require.Contains(t, body, `href="`+link+`"`, pasted)
		}
	}
	status, _, body := b.get("/search?q=nothing-like-it")
	require.Equal(t, http.StatusNotFound, status, body)
}

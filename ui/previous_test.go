package ui_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A list leads forth and back, and its command shows the page that is shown.
func TestPagesLeadForthAndBack(t *testing.T) {
	b := setup(t, nil)
	link := func(address, rel string) string {
		_, _, body := b.get(address)
		if found := regexp.MustCompile(`href="([^"]*)" rel="` + rel + `"`).FindStringSubmatch(body); found != nil {
			return html.UnescapeString(found[1])
		}
		return ""
	}
	addresses := []string{"/events?limit=1"}
	for next := addresses[0]; ; addresses = append(addresses, next) {
		if next = link(next, "next"); next == "" {
			break
		}
	}
	require.Len(t, addresses, 4, "a page for each event")
	require.Empty(t, link(addresses[0], "prev"))
	for i := 3; i > 0; i-- {
		require.Equal(t, addresses[i-1], link(addresses[i], "prev"))
	}
	_, _, body := b.get(addresses[3])
	require.Equal(t, 1, strings.Count(body, "--cursor"))
}

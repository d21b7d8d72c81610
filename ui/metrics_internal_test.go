package ui

import (
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// docs/ui.md names every series of the page, and no other.
func TestTheDocumentNamesEverySeries(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	_, err := newMetrics(r, func() float64 { return 0 })
	require.NoError(t, err)
	ch := make(chan *prometheus.Desc, 1000)
	r.Describe(ch)
	close(ch)
	exposed := map[string]bool{}
	for d := range ch {
		exposed[regexp.MustCompile(`fqName: "(outbox_[^"]+)"`).FindStringSubmatch(d.String())[1]] = true
	}
	text, err := os.ReadFile("../docs/ui.md")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`\boutbox_ui_[a-z_]+`).FindAllString(string(text), -1) {
		named[name] = true
	}
	require.Equal(t, exposed, named)
}

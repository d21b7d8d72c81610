package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A topic's name comes from the catalogue unless the configuration names it, and a name for a topic that the catalogue
// does not have is refused.
func TestTopicsComeFromTheCatalogue(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "doorito.yaml")
	require.NoError(t, os.WriteFile(file, []byte("outbox: 1\nname: doorito\ntopics: {orders: doorito-orders, billing: doorito-billing}\n"+
		"types: {order.ready: {topic: orders, aggregate: order}, paid: {topic: billing, aggregate: order}}\n"), 0o600))
	for name, test := range map[string]struct {
		env     []string
		want    map[string]string
		problem string
	}{
		"built in":   {nil, map[string]string{"domain": "pf-domain-events", "analytics": "pf-analytics-events", "notifications": "pf-notification-events", "billing": "pf-billing-events"}, ""},
		"file":       {[]string{"OUTBOXCTL_CATALOGUE=" + file}, map[string]string{"orders": "doorito-orders", "billing": "doorito-billing"}, ""},
		"overridden": {[]string{"OUTBOXCTL_CATALOGUE=" + file, "OUTBOXCTL_PUBSUB_TOPICS_ORDERS=elsewhere", "OUTBOXCTL_PUBSUB_TOPICS_BILLING=bills"}, map[string]string{"orders": "elsewhere", "billing": "bills"}, ""},
		"misspelt":   {[]string{"OUTBOXCTL_CATALOGUE=" + file, "OUTBOXCTL_PUBSUB_TOPICS_ODRERS=elsewhere"}, nil, "topics.odrers (env OUTBOXCTL_PUBSUB_TOPICS_ODRERS): the catalogue has no such topic; it has billing, orders"},
		"no file":    {[]string{"OUTBOXCTL_CATALOGUE=" + file + ".gone"}, nil, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := NewApp(Streams{}, append(test.env, "OUTBOXCTL_STATE_DIR="+t.TempDir()))
			topics, err := app.Topics(t.Context())
			if test.problem != "" {
				require.ErrorContains(t, err, test.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, topics)
		})
	}
}

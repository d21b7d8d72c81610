package pubsub_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
)

// Google's clients find the trace under a name of their own. A text that is no trace is left as it is, and so is the
// dispatcher's message.
func TestTheTraceForGooglesClients(t *testing.T) {
	t.Parallel()
	fake, publisher := start(t, pubsub.Config{})
	msgs := []dispatch.Message{message("e1", "{}"), message("e2", "{}"), message("e3", "{}")}
	msgs[0].Attributes["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	msgs[1].Attributes["traceparent"] = "e2"
	given := maps.Clone(msgs[0].Attributes)
	for _, r := range publisher.Publish(t.Context(), logical, msgs) {
		require.NoError(t, r.Err)
	}
	require.Equal(t, given, msgs[0].Attributes)
	stored := fake.Stored()
	require.Equal(t, msgs[0].Attributes["traceparent"], stored[0].Attributes["googclient_traceparent"])
	require.Len(t, stored[0].Attributes, len(given)+1)
	require.Equal(t, msgs[1].Attributes, stored[1].Attributes)
	require.Equal(t, msgs[2].Attributes, stored[2].Attributes)
}

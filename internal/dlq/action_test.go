package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
)

func TestWhatIsKnownOfAnAction(t *testing.T) {
	t.Parallel()
	type known struct {
		group, verb, noun, state string
		onEvents, sends          bool
	}
	for action, want := range map[dlq.Action]known{
		dlq.Replay:    {"dlq", "replay", "dead letter", "open", false, true},
		dlq.Discard:   {"dlq", "discard", "dead letter", "open", false, false},
		dlq.Restore:   {"dlq", "restore", "dead letter", "discarded", false, false},
		dlq.Edit:      {"dlq", "edit", "dead letter", "open", false, false},
		dlq.Republish: {"event", "republish", "published event", "published", true, true},
		dlq.Retry:     {"event", "retry", "event", "pending", true, false},
	} {
		require.Equal(t, want, known{action.Group(), action.Verb(), action.Noun(), action.State(), action.OnEvents(), action.Sends()}, "%s", action)
	}
}

package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
)

func TestWhatIsKnownOfAnAction(t *testing.T) {
	t.Parallel()
	type known struct {
		verb, noun, state string
		onEvents, sends   bool
	}
	for action, want := range map[dlq.Action]known{
		dlq.Replay:    {"replay", "dead letter", "open", false, true},
		dlq.Discard:   {"discard", "dead letter", "open", false, false},
		dlq.Restore:   {"restore", "dead letter", "discarded", false, false},
		dlq.Edit:      {"edit", "dead letter", "open", false, false},
		dlq.Republish: {"republish", "published event", "published", true, true},
		dlq.Retry:     {"retry", "event", "pending", true, false},
		dlq.Erase:     {"erase", "event", "", true, false},
	} {
		require.Equal(t, want, known{action.Verb(), action.Noun(), action.State(), action.OnEvents(), action.Sends()}, "%s", action)
	}
}

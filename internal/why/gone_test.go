package why_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cleanup"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/why"
)

// cleanUp removes all that cleanup ever removes but the audit.
func (b *bundle) cleanUp() {
	b.t.Helper()
	b.exec("UPDATE outbox_events SET published_at = now() - interval '1 hour' WHERE published_at IS NOT NULL")
	b.exec("UPDATE outbox_dlq SET state_changed_at = now() - interval '1 hour'")
	age := time.Second
	_, err := cleanup.New(b.db.Pool).Run(b.ctx, cleanup.Params{OlderThan: &age, DLQOlderThan: &age, Actor: "cron"})
	require.NoError(b.t, err)
}

// Cleanup removes what was published and what was discarded; of the one the broker has a message, of the other it has none.
func TestWhyTellsHowAnEventWentThatCleanupRemoved(t *testing.T) {
	b := setup(t)
	publish := func(id string) { b.exec("UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid", id) }
	change := func(action dlq.Action, discard bool, ids ...string) {
		t.Helper()
		_, _, err := b.change(dlq.ChangeParams{Action: action, IDs: ids, Actor: "ann", Discard: discard})
		require.NoError(t, err)
	}
	const published, not, unsure = "the broker has it", "It was not published", "It was published, or"
	want := map[string]string{}

	letter, id := b.die("no")
	change(dlq.Discard, false, letter)
	b.exec("SELECT outbox_reveal($1::text::uuid, 'ann', 'x', '{}')", id)
	want[id] = not
	letter, id = b.die("no")
	change(dlq.Discard, false, letter)
	change(dlq.Erase, false, id)
	want[id] = not
	id = b.emit("", 0)
	change(dlq.Erase, true, id)
	want[id] = not
	letter, id = b.die("no")
	change(dlq.Replay, false, letter)
	publish(id)
	want[id] = published
	id = b.emit("", 0)
	publish(id)
	change(dlq.Erase, true, id)
	want[id] = published
	// One run erased what was published and what waited.
	sent, waiting := b.emit("", 0), b.emit("", 0)
	publish(sent)
	change(dlq.Erase, true, sent, waiting)
	want[sent], want[waiting] = unsure, unsure
	// Published, and not once more.
	twice := b.emit("", 0)
	publish(twice)
	change(dlq.Republish, false, twice)
	change(dlq.Discard, false, b.dieAgain(twice, "max_attempts", "no"))
	want[twice] = not
	letter, old, _ := b.deadOrder()
	edit, err := b.outbox.ChooseEdit(b.ctx, letter)
	require.NoError(t, err)
	corrected, err := edit.Apply(b.ctx, dlq.EditParams{Data: []byte(canceled), Actor: "ann"})
	require.NoError(t, err)
	publish(corrected.CorrectedBy)
	want[old], want[corrected.CorrectedBy] = not, published

	b.cleanUp()
	for id, says := range want {
		told := b.why(id)
		require.Equal(t, why.CleanedUp, told.State, told.Explanation)
		for _, text := range []string{published, not, unsure} {
			if text == says {
				require.Contains(t, told.Explanation, text)
			} else {
				require.NotContains(t, told.Explanation, text)
			}
		}
		require.Contains(t, told.Commands, "outboxctl audit --event "+id)
	}
	require.Contains(t, b.why(twice).Explanation, "It had been published before it was sent to be published again")
	require.Contains(t, b.why(old).Explanation, "replaced by event "+corrected.CorrectedBy)
	require.Contains(t, b.why(old).Commands, "outboxctl why "+corrected.CorrectedBy)
	require.Equal(t, why.NotFound, b.why(uuid.NewString()).State)
}

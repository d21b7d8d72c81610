package why_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/why"
)

// The marks of a detail and those of ConsumerMarks are the same: of the consumers that were named, in that order, or of
// all that Redis or the inbox knows.
func TestWhichConsumersAreAsked(t *testing.T) {
	b := setup(t)
	guard := b.withRedis()
	letter, event := b.die("no")
	for _, name := range []string{"search", "billing"} {
		require.NoError(t, guard(name).Announce(b.ctx))
	}
	_, err := guard("silent").CheckAndMarkProcessed(b.ctx, uuid.MustParse(event), consume.DefaultTTL) // never announced
	require.NoError(t, err)
	b.exec("INSERT INTO inbox_events (consumer, event_id) VALUES ('archive', gen_random_uuid()), ('billing', $1::text::uuid)", event)
	for name, tc := range map[string]struct{ named, want []string }{
		"all that are known":     {nil, []string{"archive unknown", "billing unknown inbox", "search unknown"}},
		"only those named":       {[]string{"search", "archive"}, []string{"search unknown", "archive unknown"}},
		"one known nowhere else": {[]string{"silent"}, []string{"silent processed"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, id := range []string{event, letter} {
				marks, err := b.outbox.Marks(b.ctx, idem.MarksParams{ID: id, Consumers: tc.named})
				require.NoError(t, err)
				require.Equal(t, tc.want, words(t, event, marks))
				d, err := why.DeadLetter(b.ctx, b.outbox, why.DetailParams{ID: id, Consumers: tc.named})
				require.NoError(t, err)
				require.Equal(t, tc.want, words(t, event, d.Consumers))
				e, err := why.Event(b.ctx, b.outbox, why.DetailParams{ID: id, Consumers: tc.named})
				require.NoError(t, err)
				require.Equal(t, tc.want, words(t, event, e.Consumers))
			}
		})
	}
	// Without a database only Redis is asked, and an id is taken for an event's.
	b.outbox.DB = nil
	marks, err := b.outbox.Marks(b.ctx, idem.MarksParams{ID: letter})
	require.NoError(t, err)
	require.Equal(t, []string{"billing unknown", "search unknown"}, words(t, letter, marks))
}

func words(t *testing.T, eventID string, marks []idem.Mark) (out []string) {
	t.Helper()
	for _, m := range marks {
		word := m.Consumer + " " + m.State
		if m.InboxAt != nil {
			word += " inbox"
		}
		require.Equal(t, eventID, m.EventID)
		require.Equal(t, "pf:evt:processed:"+m.Consumer+":"+eventID, m.Key)
		known := m.State != string(consume.StateUnknown)
		require.Equal(t, known, m.Since != nil)
		require.Equal(t, known, m.ExpiresAt != nil)
		out = append(out, word)
	}
	return out
}

func TestConsumerMarksRefusals(t *testing.T) {
	b := setup(t)
	id := uuid.NewString()
	_, err := b.outbox.Marks(b.ctx, idem.MarksParams{ID: id})
	requireKind(t, fault.Usage, err) // no Redis is configured
	b.withRedis()
	_, err = b.outbox.Marks(b.ctx, idem.MarksParams{ID: "odd"})
	requireKind(t, fault.Usage, err)
	_, err = b.outbox.Marks(b.ctx, idem.MarksParams{ID: id, Consumers: []string{"a b"}})
	requireKind(t, fault.Usage, err)
	marks, err := b.outbox.Marks(b.ctx, idem.MarksParams{ID: id})
	require.NoError(t, err)
	require.Empty(t, marks, "no consumer is known")
}

package why_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// deadLetter writes a dead event and its open dead letter, and returns the dead letter's id.
func deadLetter(t *testing.T, db *outboxtest.Database, reason string) string {
	t.Helper()
	var id string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
WITH e AS (
    INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dead_at)
    VALUES ($1, 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', now())
    RETURNING id, event_type, aggregate_type, aggregate_id, payload_json)
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, $2::text::outbox_dlq_reason, 'x', 1 FROM e
RETURNING id::text`, uuid.NewString(), reason).Scan(&id))
	return id
}

func TestAReplayOfWhatWouldFailAgainIsRefused(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	box := dlq.New(db.Pool, registry.New())
	box.Host = "db.example:5432"
	ids := []string{deadLetter(t, db, "max_attempts"), deadLetter(t, db, "invalid_payload"), deadLetter(t, db, "message_too_large"), deadLetter(t, db, "rejected_by_broker")}
	byIDs := dlq.ChangeParams{Action: dlq.Replay, IDs: ids, Actor: "ann"}
	byFilter := dlq.ChangeParams{Action: dlq.Replay, DeadLetters: &dlq.Filter{State: dlq.StateOpen, Types: []string{"order_canceled"}}, Actor: "ann"}
	for name, params := range map[string]dlq.ChangeParams{"by ids": byIDs, "by filter": byFilter} {
		set, err := box.ChooseChange(t.Context(), params)
		require.NoError(t, err, name)
		require.EqualValues(t, 4, set.Total, name)
		err = set.RefuseHopeless()
		kind, _ := fault.KindOf(err)
		require.Equal(t, fault.Refused, kind, name)
		require.EqualError(t, err, "2 of 4 dead letters would fail again unchanged: 1 invalid_payload, 1 message_too_large", name)
		require.Contains(t, fault.HintOf(err), "--force", name)
		require.Contains(t, set.Database.Place(), " on db.example:5432", name)
	}

	// Of a discard nothing dies again, and what only the broker refused may be accepted now.
	for _, params := range []dlq.ChangeParams{
		{Action: dlq.Discard, IDs: ids},
		{Action: dlq.Replay, IDs: []string{ids[0], ids[3]}},
	} {
		set, err := box.ChooseChange(t.Context(), params)
		require.NoError(t, err)
		require.NoError(t, set.RefuseHopeless())
	}
}

func TestIDsThatAreNotThereAreToldFirst(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	box := dlq.New(db.Pool, registry.New())
	missing := uuid.NewString()
	_, err := box.ChooseChange(t.Context(), dlq.ChangeParams{Action: dlq.Replay, IDs: []string{missing}})
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.NotFound, kind)

	known := deadLetter(t, db, "max_attempts")
	set, err := box.ChooseChange(t.Context(), dlq.ChangeParams{Action: dlq.Replay, IDs: []string{missing, known}})
	require.NoError(t, err)
	require.EqualValues(t, 2, set.Total)
	require.Len(t, set.Letters, 1)
}

// A change is made to one set, whatever face asks for it.
func TestAChangeNeedsExactlyOneSet(t *testing.T) {
	b := setup(t)
	id, _ := b.die("no")
	none, several := dlq.ChangeParams{Action: dlq.Discard}, dlq.ChangeParams{Action: dlq.Discard, IDs: []string{id}, DeadLetters: &dlq.Filter{State: dlq.StateOpen}}
	for want, p := range map[error]dlq.ChangeParams{dlq.ErrNoSet: none, dlq.ErrSeveralSets: several} {
		require.ErrorIs(t, p.Check(), want)
		_, err := b.outbox.ChooseChange(b.ctx, p)
		require.ErrorIs(t, err, want)
		requireKind(t, fault.Usage, err)
		_, err = b.outbox.PlanChange(b.ctx, p, dlq.PlanParams{})
		require.ErrorIs(t, err, want)
	}
}

// What is asked about is what is changed: a dead letter that is named twice, by its own id and by its event's, is one.
func TestTwoIDsOfOneDeadLetterCountOnce(t *testing.T) {
	b := setup(t)
	id, event := b.die("no")
	other, _ := b.die("no")
	set, err := b.outbox.ChooseChange(b.ctx, dlq.ChangeParams{Action: dlq.Replay, IDs: []string{id, event, other}, Actor: "ann"})
	require.NoError(t, err)
	require.EqualValues(t, 2, set.Total)
	result, _, err := b.change(dlq.ChangeParams{Action: dlq.Replay, IDs: []string{id, event, other}, Actor: "ann"})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{dlq.Replayed: 2}, result.Counts)
}

func TestMarksAreCountedPerConsumer(t *testing.T) {
	b := setup(t)
	guard := b.withRedis()
	id1, event1 := b.die("no")
	id2, event2 := b.die("no")
	for consumer, events := range map[string][]string{"a": {event1, event2}, "b": nil} {
		for _, event := range events {
			_, err := guard(consumer).CheckAndMarkProcessed(b.ctx, uuid.MustParse(event), consume.DefaultTTL)
			require.NoError(t, err)
		}
	}
	_, _, err := guard("b").Begin(b.ctx, uuid.MustParse(event2))
	require.NoError(t, err)
	set, err := b.outbox.ChooseChange(b.ctx, dlq.ChangeParams{Action: dlq.Replay, IDs: []string{id1, id2, uuid.NewString()}})
	require.NoError(t, err)
	counts, err := set.Marks(b.ctx, []string{"a", "b"})
	require.NoError(t, err)
	require.Equal(t, []dlq.MarkCount{{Consumer: "a", Processed: 2}, {Consumer: "b", Processing: 1, Unknown: 1}}, counts)
	_, err = set.Marks(b.ctx, []string{"a b"})
	requireKind(t, fault.Usage, err)
}

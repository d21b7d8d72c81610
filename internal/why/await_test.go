package why_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
)

func TestAwaitTellsWhatBecameOfEachEvent(t *testing.T) {
	b := setup(t)
	var ids []string
	became := map[string]string{}
	for range 4 {
		id, _ := b.die("no")
		ids = append(ids, id)
	}
	_, sent, err := b.change(dlq.ChangeParams{Action: dlq.Replay, IDs: ids, Actor: "ann"})
	require.NoError(t, err)

	// One is published, and when that is told another one dies; one fails once, one is never tried.
	b.exec("UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid", sent[0].EventID)
	b.exec("UPDATE outbox_events SET attempt_count = 1 WHERE id = $1::text::uuid", sent[2].EventID)
	sum, err := b.outbox.Await(b.ctx, dlq.AwaitParams{Sent: sent, Timeout: 2 * time.Second, OnSettled: func(row dlq.Outcome) error {
		if row.EventID == sent[0].EventID {
			b.exec("UPDATE outbox_events SET dead_at = now() WHERE id = $1::text::uuid", sent[1].EventID)
		}
		became[row.ID] = row.Became
		return nil
	}})
	require.EqualError(t, err, "not published: 3 of 4 events")
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Partial, kind)
	require.Equal(t, dlq.Fates{Published: 1, Dead: 1, Failing: 1, Waiting: 1}, sum)
	require.Equal(t, map[string]string{ids[0]: "published", ids[1]: "dead", ids[2]: "failing", ids[3]: "waiting"}, became)

	b.exec("UPDATE outbox_events SET published_at = now(), dead_at = NULL")
	_, err = b.outbox.Await(b.ctx, dlq.AwaitParams{Sent: sent, Timeout: time.Hour, OnSettled: func(dlq.Outcome) error { return nil }})
	require.NoError(t, err)
}

func TestRetryMakesWhatBacksOffDue(t *testing.T) {
	b := setup(t)
	var ids []string
	for _, columns := range []string{
		"next_attempt_at = now() + interval '1 hour', attempt_count = 3", // backs off
		"next_attempt_at = now()",
		"next_attempt_at = now() + interval '1 hour'", // is being published
		"published_at = now()",
		"dead_at = now()",
	} {
		ids = append(ids, b.emit("", 0))
		b.exec("UPDATE outbox_events SET "+columns+" WHERE id = $1::text::uuid", ids[len(ids)-1])
	}
	b.exec("INSERT INTO outbox_leases (owner, until, seqs) SELECT gen_random_uuid(), now() + interval '1 hour', int8multirange(int8range(seq, seq, '[]')) FROM outbox_events WHERE id = $1::text::uuid", ids[2])
	ids = append(ids, uuid.NewString())
	want := []string{dlq.Retried, dlq.NotBackingOff, dlq.NotBackingOff, dlq.EventPublished, dlq.Dead, dlq.NotFound}
	params := dlq.ChangeParams{Action: dlq.Retry, IDs: ids, Actor: "ann", Note: "topic is back"}
	set, err := b.outbox.ChooseChange(b.ctx, params)
	require.NoError(t, err)
	for _, dryRun := range []bool{true, false} {
		var outcomes []dlq.Outcome
		if dryRun {
			_, err = set.Preview(b.ctx, dlq.DryRunParams{OnOutcomes: func(o []dlq.Outcome) error { outcomes = o; return nil }})
		} else {
			_, outcomes, err = b.change(params)
		}
		require.ErrorContains(t, err, "5 of 6 events could not be retried")
		want[0] = dlq.Retried
		if dryRun {
			want[0] = dlq.Retry.Would()
		}
		got := make([]string, len(ids))
		for _, o := range outcomes {
			got[slices.Index(ids, o.ID)] = o.Outcome
		}
		require.Equal(t, want, got, "dry run: %t", dryRun)
	}
	var due, attempts, audited int
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, `
SELECT (SELECT count(*) FROM outbox_events WHERE next_attempt_at <= now() AND attempt_count = 3), (SELECT attempt_count FROM outbox_events WHERE id = $1::text::uuid),
       (SELECT count(*) FROM outbox_audit WHERE action = 'event.retry' AND affected = 1)`, ids[0]).Scan(&due, &attempts, &audited))
	require.Equal(t, []int{1, 3, 1}, []int{due, attempts, audited})
}

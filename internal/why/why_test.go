package why_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/why"
)

func (b *bundle) why(id string) why.Result {
	b.t.Helper()
	result, err := why.Explain(b.ctx, b.outbox, why.Params{ID: id, MaxAttempts: 10})
	require.NoError(b.t, err)
	return result
}

func (b *bundle) publisher(state string, seen string) string {
	id := uuid.NewString()
	b.exec("INSERT INTO outbox_publishers (id, host, pid, version, last_seen_at, state) VALUES ($1::text::uuid, 'worker-7', 4242, 'v1', now() - $2::text::interval, $3::text::jsonb)", id, seen, state)
	return id
}

// One story through every state an event can be in, told from the same tables the publisher writes.
func TestWhyKnowsEveryState(t *testing.T) {
	b := setup(t)
	id, event := b.die("code = Unavailable")
	lease := func(owner, end string) {
		b.exec("INSERT INTO outbox_leases (owner, until, seqs) SELECT $2::text::uuid, now() + $3::text::interval, int8multirange(int8range(seq, seq, '[]')) FROM outbox_events WHERE id = $1::text::uuid", event, owner, end)
	}
	set := func(columns string, args ...any) {
		b.exec("DELETE FROM outbox_leases")
		b.exec("UPDATE outbox_events SET dead_at = NULL, published_at = NULL, attempt_count = 0, last_error = NULL, deliver_at = NULL, next_attempt_at = now() - interval '1 second' WHERE id = $1::text::uuid", event)
		if columns != "" {
			b.exec("UPDATE outbox_events SET "+columns+" WHERE id = $1::text::uuid", append([]any{event}, args...)...)
		}
	}
	check := func(state string, says ...string) {
		t.Helper()
		for _, given := range []string{event, id} { // by either id
			a := b.why(given)
			require.Equal(t, state, a.State, a.Explanation)
			require.Equal(t, event, a.EventID)
			for _, text := range says {
				require.Contains(t, a.Explanation+"\n"+strings.Join(a.Commands, "\n"), text)
			}
			require.NotContains(t, a.Explanation, "\n", "one paragraph")
		}
	}

	check(why.Dead, "10 failed attempts", "max_attempts: code = Unavailable.", "outboxctl dlq replay "+id)
	b.act(dlq.Discard, id)
	check(why.Discarded, "by tester (because)", "outboxctl dlq restore "+id)
	b.act(dlq.Restore, id)
	b.act(dlq.Replay, id)
	check(why.NoPublisher, "waits for its turn", "was replayed", "by tester (because)", "No publisher is running", "outboxctl publish")

	b.publisher("{}", "2 hours")
	check(why.NoPublisher, "the last heartbeat was 2 hours ago", "from worker-7")
	owner := b.publisher(`{"topics": [{"topic": "domain", "state": "healthy"}]}`, "1 second")
	check(why.Waiting, "Nothing is before it")
	b.exec(`UPDATE outbox_publishers SET state = '{"topics": [{"topic": "domain", "state": "unreachable"}]}' WHERE id <> $1::text::uuid`, owner)
	check(why.Waiting) // what a publisher saw that is gone does not matter

	set("attempt_count = 1, last_error = 'connection refused'")
	check(why.Waiting, "It has failed 1 time of 10, the last time with: connection refused.")
	set("attempt_count = 3, last_error = 'deadline exceeded.', next_attempt_at = now() + interval '40 minutes 30 seconds'")
	check(why.BackingOff, "failed 3 times of 10", "40 minutes from now", "deadline exceeded. Nothing needs")
	b.exec("ALTER TABLE outbox_events DISABLE TRIGGER USER")
	b.exec("UPDATE outbox_events SET max_attempts = 5")
	check(why.BackingOff, "failed 3 times of 5")
	require.NotContains(t, b.why(event).Explanation, "no attempts left")
	b.exec("UPDATE outbox_events SET max_attempts = 3")
	check(why.BackingOff, "failed 3 times of 3", "deadline exceeded. It has no attempts left and dies at its next claim")
	require.NotContains(t, b.why(event).Explanation, "Nothing needs to be done")
	set("attempt_count = 3, last_error = 'x'")
	check(why.Waiting, "It has no attempts left and dies at its next claim")
	set("attempt_count = 2")
	lease(uuid.NewString(), "-1 minute")
	check(why.Abandoned, "which is not a registered publisher (no heartbeat), whose lease ran out", "(2 of 3 so far)", "It has no attempts left and dies at its next claim")
	set("attempt_count = 3, last_error = 'x', next_attempt_at = now() + interval '3 hours 1 minute'")
	b.exec("UPDATE outbox_events SET max_attempts = 5")
	set("next_attempt_at = now() + interval '3 hours 1 minute'")
	check(why.BackingOff, "failed 0 times of 5 and is tried again 3 hours from now") // it was given back unsent
	set("next_attempt_at = now() + interval '3 hours 1 minute', deliver_at = now() + interval '3 hours 1 minute'")
	check(why.Scheduled, "is scheduled: it is published 3 hours from now", "outboxctl event retry "+event)
	set("")
	lease(owner, "20 minutes 30 seconds")
	check(why.Leased, "being published right now by publisher worker-7 (process 4242)", "20 minutes from now")
	set("")
	lease(owner, "-20 minutes")
	check(why.Abandoned, "publisher worker-7 (process 4242), whose lease ran out 20 minutes ago")

	set("")
	b.exec(`UPDATE outbox_publishers SET state = '{"topics": [{"topic": "domain", "state": "misconfigured", "since": "2026-03-01T12:00:00Z", "error": "topic not found"}]}' WHERE id = $1::text::uuid`, owner)
	check(why.Paused, "the topic domain is misconfigured since", "the broker refuses the topic", "topic not found", "outboxctl topic ensure")
	b.exec(`UPDATE outbox_publishers SET state = '{"topics": [{"topic": "domain", "state": "unreachable"}]}' WHERE id = $1::text::uuid`, owner)
	check(why.Paused, "the broker does not answer")
	b.exec(`UPDATE outbox_publishers SET state = '{"topics": [{"topic": "billing", "state": "unreachable"}]}' WHERE id = $1::text::uuid`, owner)
	check(why.Waiting)
	b.exec(`UPDATE outbox_publishers SET state = '"of another version"' WHERE id = $1::text::uuid`, owner)
	check(why.Waiting)

	set("published_at = now() - interval '3 minutes', broker_message_id = 'm-77', attempt_count = 1")
	check(why.Published, "published 3 minutes ago", "with message id m-77.", "1 failed attempt before", "outboxctl event republish "+event)

	b.exec("DELETE FROM outbox_events WHERE id = $1::text::uuid", event)
	check(why.CleanedUp, "cleanup removed it", "dlq export "+id)
	b.exec("DELETE FROM outbox_dlq WHERE id = $1::text::uuid", id)
	a := b.why(event)
	require.Equal(t, why.CleanedUp, a.State)
	require.Contains(t, a.Explanation, "replayed")
}

func TestWhyKnowsWhatIsNotHere(t *testing.T) {
	b := setup(t)
	a := b.why(uuid.NewString())
	require.Equal(t, why.NotFound, a.State)
	require.NotContains(t, a.Explanation, "cleanup")
	young := uuid.Must(uuid.NewV7()).String()
	require.Contains(t, b.why(young).Explanation, "Its id was made")
	b.exec(`INSERT INTO outbox_audit (actor, action, detail, affected) VALUES ('cron', 'cleanup', jsonb_build_object('events', jsonb_build_object('olderThan', now() - interval '30 days')), 5), ('cron', 'cleanup', '{"inbox": {}}', 5)`)
	require.Contains(t, b.why(young).Explanation, "too young to have been cleaned up")
	old := "018de000-0000-7000-8000-000000000001" // February 2024
	require.Contains(t, b.why(old).Explanation, "if it is older than that, it was published and cleaned up")
}

func TestWhyWorksWithoutThePublishersTable(t *testing.T) {
	b := setup(t)
	_, event := b.die("no")
	b.exec("UPDATE outbox_events SET dead_at = NULL, next_attempt_at = now() - interval '1 second'")
	b.exec("DROP TABLE outbox_publishers CASCADE")
	require.Equal(t, why.Waiting, b.why(event).State)
}

func TestWhyCountsWhatIsAhead(t *testing.T) {
	b := setup(t)
	for i := range 12 {
		b.emit("", i)
	}
	b.exec("UPDATE outbox_events SET next_attempt_at = now() + interval '1 hour' WHERE seq = (SELECT min(seq) FROM outbox_events)")
	var last string
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, "SELECT id::text FROM outbox_events ORDER BY seq DESC LIMIT 1").Scan(&last))
	require.Contains(t, b.why(last).Explanation, "10 due events are before it.")
}

// That a consumer forgot an event does not make it this database's.
func TestWhatAConsumerForgotMayBeAnotherDatabasesEvent(t *testing.T) {
	b := setup(t)
	id := uuid.NewString()
	b.exec("SELECT outbox_forget_event('billing', $1::text::uuid, false, 'ann', 'x', '{}')", id)
	require.Equal(t, why.NotFound, b.why(id).State)
}

// Who has an event is named: by its lease, since when; by a lock on its row, which session.
func TestWhyNamesWhoHasTheEvent(t *testing.T) {
	b := setup(t)
	b.emit("", 0)
	var id string
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, "SELECT id::text FROM outbox_events").Scan(&id))
	require.NotContains(t, b.why(id).Explanation, "locked")

	conn, err := pgx.Connect(b.ctx, b.db.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(b.ctx, "SET application_name = 'a migration'; BEGIN; SELECT FROM outbox_events FOR UPDATE")
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`Its row is locked by session %d \(a migration, user \S+, in a transaction since \S+Z\): publishers pass it over`,
		conn.PgConn().PID()), b.why(id).Explanation)
	_, err = conn.Exec(b.ctx, "ROLLBACK")
	require.NoError(t, err)
	require.NotContains(t, b.why(id).Explanation, "locked")

	b.exec(`INSERT INTO outbox_leases (owner, since, until, seqs)
		SELECT gen_random_uuid(), now() - interval '90 seconds', now() + interval '1 hour', int8multirange(int8range(seq, seq, '[]')) FROM outbox_events`)
	require.Contains(t, b.why(id).Explanation, "It has been held for 1m30s.")
}

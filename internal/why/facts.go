package why

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// aheadBound is where counting the rows before an event stops: "more than that" is enough to know.
const aheadBound = 10_000

// facts is what is known about where an event is.
type facts struct {
	EventID string
	Now     time.Time     // the database's
	Event   *outbox.Event // nil: its row is not there
	Deaths  []dlq.Entry
	Audit   []dlq.AuditRow
	// Failures are those of consumers.
	Failures []consumers.Failure
	// Topic is the logical topic of the event's type; empty when the registry does not know the type.
	Topic string
	// Policy is what the catalogue says of how the event is tried.
	Policy wire.Policy
	// MaxAttempts holds unless the event or its type has its own.
	MaxAttempts int
	// Ahead counts the due events before it, up to aheadBound.
	Ahead int64
	// KeyAhead counts the events before it in its ordering key, up to aheadBound; Head is the first of
	// them, which has First.
	KeyAhead int64
	Head     *facts
	First    bool
	// KeyBehind counts the living events behind a dead one in its ordering key, up to aheadBound.
	KeyBehind int64
	// PublishersKnown: the database keeps a list of publishers.
	PublishersKnown bool
	Publishers      []dispatch.Peer
	// Names are those of the catalogue.
	Names outbox.Names
	// LeasedAt is since when the event is leased; Lockers are the sessions that have locked its row
	// otherwise.
	LeasedAt *time.Time
	Lockers  []locker
	// Pauses are those of operators that hold the event back.
	Pauses []outbox.Pause
	// CleanupAt and CleanupOlderThan are of the newest cleanup that removed published events; zero:
	// there was none.
	CleanupAt, CleanupOlderThan time.Time
	// MadeAt is when the event's id was made; zero when the id does not contain it.
	MadeAt time.Time
}

// What waits before an event: due, unleased rows with a lower seq, counted up to a bound. Reads
// outbox_events_seq_claim_idx.
const countAhead = `
SELECT count(*)
  FROM (SELECT 1 FROM outbox_events
         WHERE published_at IS NULL AND dead_at IS NULL AND seq < $1 AND next_attempt_at <= now()
           AND NOT ` + outbox.Leased + ` @> seq
         LIMIT $2) AS ahead`

// What stands before an event in its ordering key, and the first of it. Reads
// outbox_events_turn_idx.
const countAheadInKey = `
SELECT count(*), (array_agg(id::text ORDER BY seq))[1]
  FROM (SELECT id, seq FROM outbox_events
         WHERE ordering_key = $1 AND published_at IS NULL AND passed_at IS NULL AND seq < $2
         ORDER BY seq
         LIMIT $3) AS ahead`

// What a dead event keeps from being published. Reads outbox_events_turn_idx.
const countBehindInKey = `
SELECT count(*)
  FROM (SELECT FROM outbox_events
         WHERE ordering_key = $1 AND published_at IS NULL AND passed_at IS NULL AND dead_at IS NULL AND seq > $2
         LIMIT $3) AS behind`

// locker is a session that has locked the event's row.
type locker struct {
	PID         int32
	Application string
	User        string
	Since       *time.Time // nil: this login may not see it
}

// The lease of an event, and who has locked its row: the row names the transaction, or the group of
// transactions, and each of those holds a lock on itself until it ends. A publisher locks a row for
// the moment of its claim; this looks a moment later.
const (
	// Which transaction has locked a row is not among the columns that a viewer may read.
	mayReadLocks   = `SELECT has_table_privilege('outbox_events', 'SELECT')`
	selectLeasedAt = `SELECT since FROM outbox_leases WHERE seqs @> $1::bigint`
	selectLockers  = `
SELECT a.pid, a.application_name AS application, a.usename::text AS user, a.xact_start AS since
  FROM outbox_events AS e
  JOIN pg_locks AS l ON l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock' AND l.transactionid = e.xmax
  JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE e.id = $1::uuid`
)

const hasPublishers = `SELECT to_regclass('outbox_publishers') IS NOT NULL`

// The newest cleanup that removed published events, for an event that is not there.
const selectLastCleanup = `
SELECT a.at, (a.detail #>> '{events,olderThan}')::timestamptz
  FROM outbox_audit AS a
 WHERE a.action = 'cleanup' AND a.detail ? 'events'
 ORDER BY a.at DESC, a.id DESC
 LIMIT 1`

// gather gathers what is known about the event that id means. The publishers try one maxAttempts
// times.
func gather(ctx context.Context, o *dlq.Outbox, id string, maxAttempts int) (f facts, err error) {
	f.MaxAttempts = maxAttempts
	if f.Now, err = o.Now(ctx); err != nil {
		return f, err
	}
	if f.EventID, err = o.EventID(ctx, id); err != nil {
		return f, err
	}
	if f.Event, err = o.Event(ctx, f.EventID); err != nil {
		return f, err
	}
	if f.Deaths, err = o.Deaths(ctx, f.EventID); err != nil {
		return f, err
	}
	if f.Audit, err = o.EventAudit(ctx, f.EventID); err != nil {
		return f, err
	}
	if f.Failures, err = consumers.Failures(ctx, o.DB, consumers.FailuresParams{EventIDs: []string{f.EventID}}); err != nil {
		return f, err
	}
	switch {
	case f.Event == nil:
		err = addAbsence(ctx, o, &f)
	case f.Event.DeadAt != nil && f.Event.OrderingKey != nil:
		err = o.DB.QueryRow(ctx, countBehindInKey, *f.Event.OrderingKey, f.Event.Seq, aheadBound).Scan(&f.KeyBehind)
	case f.Event.PublishedAt == nil && f.Event.DeadAt == nil:
		t, _ := o.Registry.Find(f.Event.Namespace, f.Event.EventType)
		f.Topic, f.Policy, f.Names = t.Topic, t.Policy, o.Registry.Names()
		type adding = func(context.Context, *dlq.Outbox, *facts) error
		for _, add := range []adding{addQueue, addHead, addPauses, addHolders} {
			if err = add(ctx, o, &f); err != nil {
				break
			}
		}
	}
	return f, err
}

func addAbsence(ctx context.Context, o *dlq.Outbox, f *facts) error {
	if id, err := uuid.Parse(f.EventID); err == nil && id.Version() == 7 {
		sec, nsec := id.Time().UnixTime()
		f.MadeAt = time.Unix(sec, nsec).UTC()
	}
	err := o.DB.QueryRow(ctx, selectLastCleanup).Scan(&f.CleanupAt, &f.CleanupOlderThan)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("look for a cleanup: %w", err)
	}
	return nil
}

func addPauses(ctx context.Context, o *dlq.Outbox, f *facts) error {
	pauses, err := outbox.Pauses(ctx, o.DB)
	for _, p := range pauses {
		if p.Holds(f.Names, f.Event) {
			f.Pauses = append(f.Pauses, p)
		}
	}
	return err
}

// addHolders looks at who has the event, by a lease or by a lock.
func addHolders(ctx context.Context, o *dlq.Outbox, f *facts) error {
	var since time.Time
	switch err := o.DB.QueryRow(ctx, selectLeasedAt, f.Event.Seq).Scan(&since); {
	case err == nil:
		f.LeasedAt = &since
		return nil
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("look for the event's lease: %w", err)
	}
	may, err := outbox.One[bool](ctx, o.DB, "look at the rights", mayReadLocks)
	if err != nil || !may {
		return err
	}
	f.Lockers, err = outbox.Rows[locker](ctx, o.DB, "look who has locked the event", selectLockers, f.Event.ID)
	return err
}

// addHead looks at what stands before an event in its ordering key.
func addHead(ctx context.Context, o *dlq.Outbox, f *facts) error {
	if f.Event.OrderingKey == nil {
		return nil
	}
	var head *string
	if err := o.DB.QueryRow(ctx, countAheadInKey, *f.Event.OrderingKey, f.Event.Seq, aheadBound).Scan(&f.KeyAhead, &head); err != nil {
		return fmt.Errorf("count what is before the event in its ordering key: %w", err)
	}
	if head == nil {
		return nil
	}
	first, err := gather(ctx, o, *head, f.MaxAttempts)
	if err == nil && first.Event != nil && first.Event.PublishedAt == nil { // else it has gone meanwhile
		first.First, f.Head = true, &first
	}
	return err
}

// addQueue looks at what stands between a waiting event and its publication.
func addQueue(ctx context.Context, o *dlq.Outbox, f *facts) error {
	var err error
	f.Ahead, err = outbox.One[int64](ctx, o.DB, "count what waits before the event", countAhead,
		f.Event.Seq, aheadBound)
	if err != nil {
		return err
	}
	f.PublishersKnown, err = outbox.One[bool](ctx, o.DB, "look for publishers", hasPublishers)
	if err == nil && f.PublishersKnown {
		f.Publishers, err = dispatch.Peers(ctx, o.DB)
	}
	return err
}

package dispatch_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// quiet is an observer that remembers troubles only.
type quiet struct {
	mu       sync.Mutex
	troubles []error
}

func (*quiet) Claimed(dispatch.ClaimReport)                        {}
func (*quiet) Published(string, time.Duration, []dispatch.Attempt) {}
func (*quiet) Settled(dispatch.SettleReport)                       {}
func (*quiet) TopicChanged(dispatch.TopicReport)                   {}
func (q *quiet) Trouble(_ string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.troubles = append(q.troubles, err)
}

func (q *quiet) first() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.troubles) == 0 {
		return nil
	}
	return q.troubles[0]
}

// listen runs a listener and returns what stops it.
func listen(t *testing.T, db *outboxtest.Database) (*dispatch.Listener, *quiet) {
	t.Helper()
	observer := &quiet{}
	l := dispatch.NewListener(func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, db.URL) }, observer)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return l, observer
}

func hinted(t *testing.T, l *dispatch.Listener) {
	t.Helper()
	select {
	case <-l.C():
	case <-time.After(time.Minute):
		require.FailNow(t, "no hint")
	}
}

// armed counts the sessions that hold the lock which asks emitters to notify.
func armed(t *testing.T, db *outboxtest.Database) (n int) {
	t.Helper()
	require.NoError(t, db.Pool.QueryRow(t.Context(), `
SELECT count(*) FROM pg_locks
 WHERE locktype = 'advisory' AND granted AND mode = 'ExclusiveLock' AND classid = 1870034018
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n))
	return n
}

func TestIdleListenerIsWokenByACommit(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	l, observer := listen(t, db)
	l.Arm()
	hinted(t, l) // arming asks for one look: rows committed just before sent no notification
	for range 3 {
		emitOrders(t, db.Pool, 2, nil)
		hinted(t, l)
	}
	// Every session ends with the lock returned, or emitters would notify for ever.
	l.Disarm()
	require.Eventually(t, func() bool { return armed(t, db) == 0 }, time.Minute, 5*time.Millisecond)
	l.Arm()
	hinted(t, l)
	require.Equal(t, 1, armed(t, db))
	require.NoError(t, observer.first())
}

func TestEmittersNotifyNoBusyPublisher(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	_, err = conn.Exec(t.Context(), `LISTEN outbox_wake`)
	require.NoError(t, err)
	emitOrders(t, db.Pool, 5, nil)
	_, err = db.Pool.Exec(t.Context(), `SELECT pg_notify('outbox_wake', 'the test')`)
	require.NoError(t, err)
	n, err := conn.WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "the test", n.Payload, "the events came first and sent no notification")
}

func TestListenerComesBackAfterItsSessionIsKilled(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	l, observer := listen(t, db)
	l.Arm()
	hinted(t, l)
	_, err := db.Pool.Exec(t.Context(), `
SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1870034018
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	require.NoError(t, err)
	hinted(t, l) // armed again
	require.Error(t, observer.first())
	emitOrders(t, db.Pool, 1, nil)
	hinted(t, l)
}

func TestTwoIdleListenersAreBothWoken(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	first, _ := listen(t, db)
	first.Arm()
	hinted(t, first)
	second, _ := listen(t, db)
	second.Arm()
	require.Eventually(t, func() bool {
		var listening int
		require.NoError(t, db.Pool.QueryRow(t.Context(), `
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_try_advisory_lock%' AND pid <> pg_backend_pid()`).Scan(&listening))
		return listening == 2
	}, time.Minute, 5*time.Millisecond)
	emitOrders(t, db.Pool, 1, nil)
	hinted(t, first)
	hinted(t, second)
}

func TestHeartbeatShowsThePublisherAndLeaves(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `
INSERT INTO outbox_publishers (id, host, pid, version, last_seen_at) VALUES
       (gen_random_uuid(), 'gone', 1, 'x', now() - interval '1 hour'), (gen_random_uuid(), 'late', 2, 'x', now() - interval '1 minute')`)
	require.NoError(t, err)
	observer := &quiet{}
	beat := &dispatch.Heartbeat{
		DB: db.Pool, Observe: observer,
		Identity: dispatch.Identity{ID: uuid.NewString(), Host: "here", PID: 42, Version: "v1"},
		State: func() dispatch.PublisherState {
			return dispatch.PublisherState{InFlight: 7, Topics: []dispatch.TopicReport{{Topic: "domain", State: dispatch.TopicUnreachable, Error: "away"}}}
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); beat.Run(ctx) }()
	hosts := func() (list []string) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(host ORDER BY host), '{}') FROM outbox_publishers`).Scan(&list))
		return list
	}
	require.Eventually(t, func() bool { return len(hosts()) == 2 && hosts()[0] == "here" }, time.Minute, 5*time.Millisecond)
	require.Equal(t, []string{"here", "late"}, hosts(), "the row of a publisher that ended long ago is pruned, a late one's is not")
	var state string
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT state::text FROM outbox_publishers WHERE pid = 42`).Scan(&state))
	require.JSONEq(t, `{"inFlight":7,"inFlightBytes":0,"published":0,"takes":{},"topics":[{"topic":"domain","state":"unreachable","since":"0001-01-01T00:00:00Z","error":"away"}]}`, state)
	cancel()
	<-done
	require.Equal(t, []string{"late"}, hosts())
	require.NoError(t, observer.first())
}

func TestHeartbeatSurvivesADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	observer := &quiet{}
	beat := &dispatch.Heartbeat{DB: away{}, Observe: observer, State: func() dispatch.PublisherState { return dispatch.PublisherState{} }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); beat.Run(ctx) }()
	require.Eventually(t, func() bool { return observer.first() != nil }, time.Minute, time.Millisecond)
	cancel()
	<-done
	require.ErrorIs(t, observer.first(), errAwayDB)
}

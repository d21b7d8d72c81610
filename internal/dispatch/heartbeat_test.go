package dispatch

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// slowDB takes its time for every statement. One that its client gives up is
// executed all the same, later.
type slowDB struct {
	takes time.Duration
	rows  int
}

func (db *slowDB) Exec(ctx context.Context, sql string, _ ...any) (pgconn.CommandTag, error) {
	run := func() {
		switch {
		case sql == leaveSQL:
			db.rows = 0
		case strings.Contains(sql, "INSERT"):
			db.rows = 1
		}
	}
	select {
	case <-time.After(db.takes):
		run()
		return pgconn.CommandTag{}, nil
	case <-ctx.Done():
		time.AfterFunc(2*db.takes, run)
		return pgconn.CommandTag{}, ctx.Err()
	}
}

// A publisher that ends during its first beat must not come back when the row
// is gone.
func TestHeartbeatLeavesAfterTheBeatUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, observer := &slowDB{takes: time.Second}, &memObserver{}
		beat := &Heartbeat{DB: db, Observe: observer, State: func() PublisherState { return PublisherState{} }}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		beat.Run(ctx)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, db.rows)
		require.Empty(t, observer.troubles)
	})
}

func TestHeartbeatDoesNotHoldUpTheShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beat := &Heartbeat{DB: &slowDB{takes: time.Hour}, Observe: &memObserver{}, State: func() PublisherState { return PublisherState{} }}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		began := time.Now()
		beat.Run(ctx)
		require.LessOrEqual(t, time.Since(began), 2*heartbeatTimeout)
	})
}

package bench

import (
	"context"
	"fmt"
	"time"
)

// Counters are the server's own figures about the scratch database.
type Counters struct {
	wal          int64
	updates      int64
	Transactions int64
	claimIndex   int64 // bytes
	buffers      int64 // pages looked at
	// database and self are processor times: of the server's processes, and of this one with the fake in it.
	database, self time.Duration
}

const countersSQL = `
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, t.n_tup_upd, d.xact_commit + d.xact_rollback,
       pg_relation_size('outbox_events_seq_claim_idx'), d.blks_hit + d.blks_read
  FROM pg_stat_user_tables AS t, pg_stat_database AS d
 WHERE t.relname = 'outbox_events' AND d.datname = current_database()`

// Counters reads them.
func (d *Database) Counters(ctx context.Context) (c Counters, err error) {
	err = d.Pool.QueryRow(ctx, countersSQL).Scan(&c.wal, &c.updates, &c.Transactions, &c.claimIndex, &c.buffers)
	if err != nil {
		return c, fmt.Errorf("read the server's counters: %w", err)
	}
	if d.server.postgres != nil {
		c.database = familyTime(d.server.postgres.PID())
	}
	c.self = CPUTime()
	return c, nil
}

// countersAfter waits until the server has counted at least so many updates: each
// backend reports late, at the latest when its connection ends.
func (d *Database) countersAfter(ctx context.Context, before Counters, updates int64) (Counters, error) {
	deadline := time.Now().Add(5 * time.Second)
	for {
		now, err := d.Counters(ctx)
		if err != nil || now.updates-before.updates >= updates || time.Now().After(deadline) {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

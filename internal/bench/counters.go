package bench

import (
	"context"
	"fmt"
	"time"
)

// counters are the server's own figures about the scratch database.
type counters struct {
	wal          int64
	updates      int64
	hot          int64
	transactions int64
	claimIndex   int64 // bytes
}

const countersSQL = `
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, t.n_tup_upd, t.n_tup_hot_upd, d.xact_commit + d.xact_rollback,
       pg_relation_size('outbox_events_seq_claim_idx')
  FROM pg_stat_user_tables AS t, pg_stat_database AS d
 WHERE t.relname = 'outbox_events' AND d.datname = current_database()`

func (d *database) counters(ctx context.Context) (c counters, err error) {
	err = d.pool.QueryRow(ctx, countersSQL).Scan(&c.wal, &c.updates, &c.hot, &c.transactions, &c.claimIndex)
	if err != nil {
		return c, fmt.Errorf("read the server's counters: %w", err)
	}
	return c, nil
}

// countersAfter waits until the server has counted at least so many updates: each
// backend reports late, at the latest when its connection ends.
func (d *database) countersAfter(ctx context.Context, before counters, updates int64) (counters, error) {
	deadline := time.Now().Add(5 * time.Second)
	for {
		now, err := d.counters(ctx)
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

package stats

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sample is the part of a Report that a publisher shows as metrics: it costs one index walk and no
// snapshot.
type Sample struct {
	Backlog          int64
	OldestAgeSeconds float64
	AtMaxAttempts    int64
	// Parked, BlockedKeys and Scheduled are as in a Report.
	Parked, BlockedKeys, Scheduled int64
	Claimable                      int64 // at most 100,000
	Pauses                         int64
	DLQOpen                        map[string]int64 // by reason
	Consumers                      []Consumer
}

// One walk over outbox_events_seq_claim_idx; the dead letters are counted when they are written.
const sampleQuery = blockedKeys + `, open AS MATERIALIZED (
    SELECT error_reason, sum(n) AS n FROM outbox_dlq_counts WHERE state = 'open' GROUP BY 1 HAVING sum(n) <> 0)
SELECT count(*) FILTER (WHERE ` + forPublishers + `),
       coalesce(extract(epoch FROM now() - min(greatest(e.created_at, e.deliver_at)) FILTER (WHERE ` + forPublishers + `)), 0)::float8,
       count(*) FILTER (WHERE ` + exhausted + `)
           + coalesce((SELECT n::bigint FROM open WHERE error_reason = 'max_attempts'), 0),
       (SELECT coalesce(json_object_agg(error_reason, n), '{}') FROM open),
       count(b.seq),
       (SELECT count(*) FROM blocked),
       count(*) FILTER (WHERE ` + scheduled + `),
       outbox_claimable(100000),
       (SELECT count(*) FROM outbox_pauses WHERE until IS NULL OR until > now())` + waitingEvents

// beginSample: compiling the walk takes a second, walking over 60,000 events a tenth of that.
const beginSample = `BEGIN READ ONLY; SET LOCAL jit = off`

// TakeSample reads a Sample. maxAttempts is the publisher's maximum, for the rows that have none of
// their own.
func TakeSample(ctx context.Context, db *pgxpool.Pool, maxAttempts int) (s Sample, err error) {
	err = pgx.BeginTxFunc(ctx, db, pgx.TxOptions{BeginQuery: beginSample}, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, sampleQuery, maxAttempts).Scan(&s.Backlog, &s.OldestAgeSeconds,
			&s.AtMaxAttempts, &s.DLQOpen, &s.Parked, &s.BlockedKeys, &s.Scheduled, &s.Claimable, &s.Pauses); err != nil {
			return err
		}
		s.Consumers, err = Consumers(ctx, tx)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("sample the backlog: %w", err)
	}
	return s, nil
}

package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Group is the dead letters that share a value.
type Group struct {
	Value       string    `json:"value"`
	Count       int64     `json:"count"`
	FirstSeen   time.Time `json:"firstSeen"`
	LastSeen    time.Time `json:"lastSeen"`
	SampleID    string    `json:"sampleId"`
	SampleError string    `json:"sampleError"`
}

// groupColumns are what dead letters can be grouped by.
func groupColumns() map[string]string {
	return map[string]string{
		"fingerprint": "fingerprint",
		"reason":      "error_reason",
		"type":        "event_type",
		"topic":       "topic",
	}
}

// GroupBy lists the names Groups accepts.
func GroupBy() []string { return []string{"fingerprint", "reason", "type", "topic"} }

// Groups counts the dead letters of a filter by one column, the largest group
// first, at most limit groups. The sample is the newest of its group.
func (s *Store) Groups(ctx context.Context, f Filter, by string, limit int) ([]Group, error) {
	column, ok := groupColumns()[by]
	if !ok {
		return nil, fmt.Errorf("cannot group by %q", by)
	}
	c, err := f.compile()
	if err != nil {
		return nil, err
	}
	where, args := c.where()
	// The sample is looked up per group that is shown, by the time of its newest row.
	sql := fmt.Sprintf(`
WITH groups AS MATERIALIZED (
    SELECT %[1]s AS value, count(*) AS n, min(failed_at) AS first_seen, max(failed_at) AS last_seen
      FROM outbox_dlq
     WHERE %[2]s
     GROUP BY 1
     ORDER BY 2 DESC, 4 DESC, 1
     LIMIT %[3]d
)
SELECT coalesce(g.value::text, ''), g.n, g.first_seen, g.last_seen, coalesce(s.id::text, ''), coalesce(s.error_message, '')
  FROM groups AS g
  LEFT JOIN LATERAL (
       SELECT id, error_message
         FROM outbox_dlq
        WHERE failed_at = g.last_seen AND %[1]s IS NOT DISTINCT FROM g.value AND %[2]s
        ORDER BY id DESC
        LIMIT 1) AS s ON true
 ORDER BY g.n DESC, g.last_seen DESC, 1`, column, where, limit)
	groups, err := collect(ctx, s.db, func(row pgx.CollectableRow) (g Group, err error) {
		return g, row.Scan(&g.Value, &g.Count, &g.FirstSeen, &g.LastSeen, &g.SampleID, &g.SampleError)
	}, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("group dead letters: %w", err)
	}
	return groups, nil
}

// deathsPerHourQuery reads only what died lately, in the order of outbox_dlq_open_idx.
const deathsPerHourQuery = `SELECT fingerprint, floor(extract(epoch FROM now() - failed_at) / 3600)::int AS hour, count(*)
  FROM outbox_dlq
 WHERE state = 'open' AND fingerprint IS NOT NULL AND failed_at > now() - make_interval(hours => $1) AND failed_at <= now()
 GROUP BY 1, 2`

// DeathsPerHour counts the open dead letters of each fingerprint by how many hours ago they died, the last hour first.
func (s *Store) DeathsPerHour(ctx context.Context, hours int) (map[string][]int64, error) {
	rows, err := s.db.Query(ctx, deathsPerHourQuery, hours)
	if err != nil {
		return nil, fmt.Errorf("count deaths per hour: %w", err)
	}
	found := map[string][]int64{}
	var fingerprint string
	var hour int
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&fingerprint, &hour, &n}, func() error {
		if found[fingerprint] == nil {
			found[fingerprint] = make([]int64, hours)
		}
		found[fingerprint][min(max(hour, 0), hours-1)] += n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count deaths per hour: %w", err)
	}
	return found, nil
}

// CountUpTo counts the dead letters of a filter and stops at most. It does not count, and says so, where every row would
// have to be looked at.
func (s *Store) CountUpTo(ctx context.Context, f Filter, most int) (n int64, counted bool, err error) {
	c, err := f.compile()
	if err != nil || c.rest != "" {
		return 0, false, err
	}
	where, args := c.where()
	sql := fmt.Sprintf("SELECT count(*) FROM (SELECT FROM outbox_dlq WHERE %s LIMIT %d) AS found", where, most)
	if err := s.db.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		return 0, false, fmt.Errorf("count dead letters: %w", err)
	}
	return n, true, nil
}

// Count counts the dead letters of a filter.
func (s *Store) Count(ctx context.Context, f Filter) (int64, error) {
	c, err := f.compile()
	if err != nil {
		return 0, err
	}
	where, args := c.where()
	var n int64
	if err := s.db.QueryRow(ctx, "SELECT count(*) FROM outbox_dlq WHERE "+where, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return n, nil
}

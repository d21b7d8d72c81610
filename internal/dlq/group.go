package dlq

import (
	"context"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Group is the dead letters that share a value.
type Group struct {
	Value        string    `json:"value"`
	Count        int64     `json:"count"`
	FirstSeen    time.Time `json:"firstSeen"`
	LastSeen     time.Time `json:"lastSeen"`
	SampleID     string    `json:"sampleId"`
	SampleReason string    `json:"-"` // for the page
	SampleError  string    `json:"sampleError"`
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
// first, at most limit groups. The sample is the newest of its group. What is
// open altogether is not counted: it is read from what was counted before.
func (o *Outbox) Groups(ctx context.Context, f Filter, by string, limit int) ([]Group, error) {
	column, ok := groupColumns()[by]
	if !ok {
		return nil, fmt.Errorf("cannot group by %q", by)
	}
	w, err := compile(f)
	if err != nil {
		return nil, err
	}
	where := where(f, &w)
	// The sample is looked up per group that is shown, by the time of its newest row. Groups of one
	// size keep their order: by their newest row they would change places with each death.
	sql := fmt.Sprintf(`
WITH groups AS MATERIALIZED (
    SELECT value, n, first_seen, last_seen
      FROM (%[4]s) AS counted
     ORDER BY n DESC, last_seen DESC, value
     LIMIT %[3]d
)
SELECT coalesce(g.value::text, '') AS value, g.n AS count, g.first_seen, g.last_seen, coalesce(s.id::text, '') AS sample_id, coalesce(s.error_reason::text, '') AS sample_reason, coalesce(s.error_message, '') AS sample_error
  FROM groups AS g
  LEFT JOIN LATERAL (
       SELECT id, error_reason, error_message
         FROM outbox_dlq
        WHERE failed_at = g.last_seen AND %[1]s IS NOT DISTINCT FROM g.value AND %[2]s
        ORDER BY id DESC
        LIMIT 1) AS s ON true
 ORDER BY g.n DESC, g.first_seen, 1`, column, where, limit, countedBy(f, w, column, where, limit))
	return outbox.Rows[Group](ctx, o.DB, "group dead letters", sql, w.Args...)
}

// fewGroups is up to how many groups each has its ends looked up.
const fewGroups = 1_000

// countedBy is the query that counts the dead letters of a filter by one column.
func countedBy(f Filter, w outbox.Walk, column, where string, limit int) string {
	switch {
	case f.State != StateOpen || w.Lead != "" || len(w.Rest) > 0:
		return fmt.Sprintf(groupRows, column, where)
	case limit > fewGroups || !f.Since.IsZero() || !f.Until.IsZero():
		return fmt.Sprintf(groupIndex, column, where)
	case column == "fingerprint":
		return fmt.Sprintf(groupCounts, column, "nullif(fingerprint, '')", "outbox_dlq_causes", lowestID, highestID, limit)
	}
	value := column
	for _, c := range f.Conditions() {
		if c.Column == column {
			value = c.Cast.One(column)
		}
	}
	return fmt.Sprintf(groupCounts, column, value, "outbox_dlq_counts WHERE state = 'open'", lowestID, highestID, limit)
}

const (
	// Reads the rows.
	groupRows = `SELECT %[1]s AS value, count(*) AS n, min(failed_at) AS first_seen, max(failed_at) AS last_seen
              FROM outbox_dlq WHERE %[2]s GROUP BY 1`

	// Reads the column's index of open rows and nothing else, where the table was vacuumed. Without
	// the order PostgreSQL would rather read the whole table, payloads and all; OFFSET 0 keeps it from
	// seeing that the order is not needed.
	groupIndex = `SELECT value, count(*) AS n, min(failed_at) AS first_seen, max(failed_at) AS last_seen
              FROM (SELECT %[1]s AS value, failed_at FROM outbox_dlq WHERE %[2]s ORDER BY %[1]s, failed_at, id OFFSET 0) AS walked GROUP BY 1`

	// Reads what was counted when open rows were written (migration 00021), and both ends of each
	// value in the column's index. Whole rows of the index are compared, for the reason that
	// outbox.Walk has; with NULL they compare as nothing. Of groups of one size those come first that
	// changed last.
	groupCounts = `SELECT c.value, c.n, oldest.failed_at AS first_seen, newest.failed_at AS last_seen
              FROM (SELECT %[2]s AS value, c.n
                      FROM (SELECT %[1]s, sum(n)::bigint AS n FROM %[3]s GROUP BY 1 HAVING sum(n) > 0 ORDER BY 2 DESC, max(id) DESC LIMIT %[6]d) AS c) AS c
              JOIN LATERAL (
                   (SELECT failed_at FROM outbox_dlq
                     WHERE state = 'open' AND (%[1]s, failed_at, id) >= (c.value, '-infinity', '%[4]s') AND (%[1]s, failed_at, id) <= (c.value, 'infinity', '%[5]s')
                     ORDER BY %[1]s, failed_at, id LIMIT 1)
                   UNION ALL
                   (SELECT failed_at FROM outbox_dlq WHERE c.value IS NULL AND state = 'open' AND %[1]s IS NULL ORDER BY failed_at, id LIMIT 1)) AS oldest ON true
              JOIN LATERAL (
                   (SELECT failed_at FROM outbox_dlq
                     WHERE state = 'open' AND (%[1]s, failed_at, id) >= (c.value, '-infinity', '%[4]s') AND (%[1]s, failed_at, id) <= (c.value, 'infinity', '%[5]s')
                     ORDER BY %[1]s DESC, failed_at DESC, id DESC LIMIT 1)
                   UNION ALL
                   (SELECT failed_at FROM outbox_dlq WHERE c.value IS NULL AND state = 'open' AND %[1]s IS NULL ORDER BY failed_at DESC, id DESC LIMIT 1)) AS newest ON true`
)

// deathsPerHourQuery reads, for each of few causes, what died lately: a part of
// outbox_dlq_open_fingerprint_idx.
const deathsPerHourQuery = `
SELECT c.fingerprint, h.hour, h.n
  FROM unnest($2::text[]) AS c(fingerprint)
 CROSS JOIN LATERAL (
       SELECT floor(date_part('epoch', now() - d.failed_at) / 3600)::int AS hour, count(*) AS n
         FROM outbox_dlq AS d
        WHERE d.state = 'open' AND d.fingerprint = c.fingerprint AND d.failed_at > now() - make_interval(hours => $1) AND d.failed_at <= now()
        GROUP BY 1) AS h`

// DeathsPerHour counts the open dead letters of some fingerprints by how many hours ago they died,
// the last hour first.
func (o *Outbox) DeathsPerHour(ctx context.Context, hours int, fingerprints []string) (map[string][]int64, error) {
	rows, err := outbox.Rows[struct {
		Fingerprint string
		Hour        int
		N           int64
	}](ctx, o.DB, "count deaths per hour", deathsPerHourQuery, hours, fingerprints)
	found := map[string][]int64{}
	for _, r := range rows {
		if found[r.Fingerprint] == nil {
			found[r.Fingerprint] = make([]int64, hours)
		}
		found[r.Fingerprint][min(max(r.Hour, 0), hours-1)] += r.N
	}
	return found, err
}

// CountDeadLettersUpTo counts the dead letters of a filter and stops at most. It does not count,
// and says so, where every row would have to be looked at.
func (o *Outbox) CountDeadLettersUpTo(ctx context.Context, f Filter, most int) (n int64, counted bool, err error) {
	if err := o.SettleAggregate(ctx, &f); err != nil {
		return 0, false, err
	}
	w, err := compile(f)
	if err != nil || len(w.Rest) > 0 {
		return 0, false, err
	}
	sql := fmt.Sprintf("SELECT count(*) FROM (SELECT FROM outbox_dlq WHERE %s LIMIT %d) AS found", where(f, &w), most)
	n, err = outbox.One[int64](ctx, o.DB, "count dead letters", sql, w.Args...)
	return n, err == nil, err
}

// handledRows is how many of the dead letters that were handled last are looked at for what was
// done about a cause.
const handledRows = 2000

// Handled is what was done lately about dead letters of one cause.
type Handled struct {
	Fingerprint string `db:"fingerprint"`
	Replayed    int64  `db:"replayed"`
	Discarded   int64  `db:"discarded"`
	// DiedAgain is how many of those that were replayed have died since.
	DiedAgain int64 `db:"died_again"`
	// At and Actor are those of the last time.
	At    time.Time `db:"at"`
	Actor string    `db:"actor"`
}

// The newest rows of outbox_dlq_handled_idx; each replayed one costs a look at
// outbox_dlq_event_idx.
const selectHandled = `
WITH recent AS (
    SELECT d.fingerprint, d.state, d.state_changed_at, d.audit_id, d.event_id
      FROM outbox_dlq AS d
     WHERE d.state <> 'open' AND d.state_changed_at IS NOT NULL
     ORDER BY d.state_changed_at DESC
     LIMIT $1),
causes AS (
    SELECT r.fingerprint, count(*) FILTER (WHERE r.state = 'replayed') AS replayed, count(*) FILTER (WHERE r.state = 'discarded') AS discarded,
           count(*) FILTER (WHERE r.state = 'replayed' AND EXISTS (
               SELECT FROM outbox_dlq AS again WHERE again.event_id = r.event_id AND again.failed_at > r.state_changed_at)) AS died_again,
           max(r.state_changed_at) AS at, (array_agg(r.audit_id ORDER BY r.state_changed_at DESC))[1] AS audit_id
      FROM recent AS r
     WHERE r.fingerprint = ANY ($2::text[])
     GROUP BY 1)
SELECT c.fingerprint, c.replayed, c.discarded, c.died_again, c.at, coalesce(a.actor, '') AS actor
  FROM causes AS c
  LEFT JOIN outbox_audit AS a ON a.id = c.audit_id`

// HandledCauses returns, by fingerprint, what was done lately about dead letters that had them, and
// with what success.
func (o *Outbox) HandledCauses(ctx context.Context, fingerprints []string) (map[string]Handled, error) {
	found, err := outbox.Rows[Handled](ctx, o.DB, "read what was done about causes", selectHandled, handledRows, fingerprints)
	byCause := make(map[string]Handled, len(found))
	for _, h := range found {
		byCause[h.Fingerprint] = h
	}
	return byCause, err
}

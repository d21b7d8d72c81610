package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// fewLeft is the share of connections in use beyond which the next deployment may get none.
const fewLeft = 0.9

// Sessions that have waited for a lock longer than an honest statement holds one, with a lock on
// one of our tables or wanting one, and who is in their way. waitstart is null for the instant in
// which a wait begins.
const waitsSQL = `
SELECT w.pid, clock_timestamp() - min(w.waitstart) AS waited, coalesce(min(w.relation::regclass::text), 'a row'), pg_blocking_pids(w.pid)
  FROM pg_locks AS w
 WHERE NOT w.granted AND clock_timestamp() - w.waitstart > $1::interval
   AND EXISTS (SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                WHERE l.pid = w.pid AND l.locktype = 'relation' AND c.relname LIKE 'outbox\_%'
                  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
 GROUP BY w.pid
 ORDER BY 2 DESC, 1`

// locks finds who keeps others from the outbox's tables.
func (d Database) locks(ctx context.Context) ([]Finding, error) {
	blockers, err := d.Pool.Blockers(ctx)
	if err != nil {
		return nil, err
	}
	if len(blockers) > 0 {
		found := fail(pgread.Remedy(blockers), "%s", pgread.Describe(blockers))
		found[0].cause = causeOf(blockers)
		return found, nil
	}
	var waiting, pid int
	var waited, longest time.Duration
	var first, relation, table string
	var by, causes []int32
	into := []any{&pid, &waited, &relation, &by}
	err = outbox.Each(ctx, d.Pool, "read who waits", waitsSQL, []any{d.LockWait}, into, func() {
		if waiting++; waiting == 1 {
			longest, table, causes, first = waited, relation, by, fmt.Sprint(pid)
		}
	})
	if err != nil {
		return nil, err
	}
	if waiting == 0 {
		return ok("nobody waits for a lock on the outbox's tables"), nil
	}
	return warn(fmt.Sprintf("look at them: SELECT pid, application_name, state, xact_start FROM pg_stat_activity WHERE pid = ANY ('{%s}')", numbers(causes)),
		"sessions that wait for a lock: %d; session %s has waited %s for %s, behind %s", waiting, first, longest.Round(time.Second), table, numbers(causes)), nil
}

func numbers(pids []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ","), "[]")
}

// The tightest of three limits of connections: the server's, the database's and this user's.
// Superusers have some of the server's for themselves. Everybody sees the pid, user and database of
// every session.
const connectionsSQL = `
WITH sessions AS (
    SELECT datname, usename, coalesce(nullif(application_name, ''), 'no name') AS application
      FROM pg_stat_activity
     WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND coalesce(backend_type, '') <> 'parallel worker'
), limits (place, used, most) AS (
    SELECT 'the server', (SELECT count(*) FROM sessions),
           (SELECT sum(CASE name WHEN 'max_connections' THEN setting::int ELSE -setting::int END)
              FROM pg_settings WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections'))
    UNION ALL
    SELECT 'database ' || d.datname, (SELECT count(*) FROM sessions AS s WHERE s.datname = d.datname), d.datconnlimit
      FROM pg_database AS d WHERE d.datname = current_database() AND d.datconnlimit > 0
    UNION ALL
    SELECT 'user ' || r.rolname, (SELECT count(*) FROM sessions AS s WHERE s.usename = r.rolname), r.rolconnlimit
      FROM pg_roles AS r WHERE r.rolname = session_user AND r.rolconnlimit > 0
)
SELECT place, used, most,
       (SELECT string_agg(format('%s as %s: %s', application, usename, n), ', ')
          FROM (SELECT application, usename, count(*) AS n FROM sessions GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 3) AS largest)
  FROM limits
 ORDER BY used::float8 / greatest(most, 1) DESC
 LIMIT 1`

// connections warns before the server has none left: then not even doctor gets one.
func (d Database) connections(ctx context.Context) ([]Finding, error) {
	var place, largest string
	var used, most int64
	if err := d.Pool.QueryRow(ctx, connectionsSQL).Scan(&place, &used, &most, &largest); err != nil {
		return nil, err
	}
	if float64(used) >= fewLeft*float64(most) {
		remedy := "end idle sessions, put a pooler in between, or raise max_connections"
		if kind, name, ok := strings.Cut(place, " "); ok && kind != "the" {
			remedy = fmt.Sprintf("end idle sessions, or raise the limit: ALTER %s %s CONNECTION LIMIT …", strings.ToUpper(kind), pgx.Identifier{name}.Sanitize())
		}
		return warn(remedy, "%s uses %d of %d connections; most are %s", safetext.Line(place), used, most, safetext.Line(largest)), nil
	}
	return ok("%s uses %d of %d", safetext.Line(place), used, most), nil
}

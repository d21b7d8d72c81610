package migrate

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Adoption is what a run of Up would find in a database and do to it.
type Adoption struct {
	Versions
	// Exists: there is a table outbox_events. Types are those of its event types, or of the table that
	// would be created.
	Exists bool   `json:"exists"`
	Types  string `json:"types"`
	// Blocked is what keeps the table from being adopted; empty: nothing does.
	Blocked []Difference `json:"blocked"`
	// Harmless is what differs and does not matter, Warnings what has to be known before.
	Harmless []string `json:"harmless"`
	Warnings []string `json:"warnings"`
	// Rows is PostgreSQL's own estimate, Waiting is counted.
	Rows       int64 `json:"rows"`
	Waiting    int64 `json:"waiting"`
	TableBytes int64 `json:"tableBytes"`
	IndexBytes int64 `json:"indexBytes"`
	// Steps are those that take time; GrowthBytes is what the table and its indexes grow by, and
	// WALBytes what is logged.
	Steps       []Estimate `json:"steps"`
	Seconds     float64    `json:"seconds"`
	GrowthBytes int64      `json:"growthBytes"`
	WALBytes    int64      `json:"walBytes"`
	// Sessions are those that use the table now.
	Sessions []Session `json:"sessions"`
}

// Difference is something in which a table differs from what it must be.
type Difference struct {
	Column  string `json:"column"`
	Problem string `json:"problem"`
	// Statement would help.
	Statement string `json:"statement"`
}

// Estimate is how long a step is likely to take, and what it does in that time.
type Estimate struct {
	Step    string  `json:"step"`
	Seconds float64 `json:"seconds"`
	Does    string  `json:"does"`
}

// Session is one that uses the table.
type Session struct {
	PID         int32  `json:"pid"`
	User        string `json:"user"`
	Application string `json:"application"`
	// Does is writes, publishes or reads, as far as its locks and its last statement show.
	Does string `json:"does"`
	// Since is when its transaction began; nil outside of one.
	Since *time.Time `json:"since,omitempty"`
}

// Survey returns what Up would find and do. It only reads.
func Survey(ctx context.Context, pool *pgxpool.Pool, opts Options) (Adoption, error) {
	opts = opts.withDefaults()
	if err := checkServer(ctx, pool, opts); err != nil {
		return Adoption{}, err
	}
	if err := checkTypes(ctx, pool, opts); err != nil {
		return Adoption{}, err
	}
	v, err := Version(ctx, pool, opts)
	if err != nil {
		return Adoption{}, err
	}
	a := Adoption{Versions: v, Types: opts.FreshTypes, Blocked: []Difference{}, Harmless: []string{},
		Warnings: []string{}, Steps: []Estimate{}, Sessions: []Session{}}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error { return a.look(ctx, tx, opts) })
	if err != nil {
		return Adoption{}, fmt.Errorf("look at the table: %w", err)
	}
	a.estimate(opts)
	return a, nil
}

func (a *Adoption) look(ctx context.Context, tx pgx.Tx, opts Options) error {
	if err := tx.QueryRow(ctx, `SELECT to_regclass('outbox_events') IS NOT NULL`).Scan(&a.Exists); err != nil || !a.Exists {
		return err
	}
	if a.Database == 0 {
		query, enums, labels, err := differences(opts.Migrations)
		if err != nil {
			return err
		}
		a.Blocked, err = collect(ctx, tx, pgx.RowToStructByPos[Difference], query+ownerDiffers+enumDiffers, enums, labels)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, harmless).Scan(&a.Harmless); err != nil {
			return err
		}
	}
	err := tx.QueryRow(ctx, sizes).Scan(&a.Types, &a.Rows, &a.TableBytes, &a.IndexBytes, &a.Warnings)
	if err != nil {
		return err
	}
	if a.Rows < 0 {
		if err := tx.QueryRow(ctx, sampledRows).Scan(&a.Rows); err != nil {
			return err
		}
	}
	if len(a.Blocked) > 0 {
		return nil
	}
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM outbox_events WHERE published_at IS NULL`).Scan(&a.Waiting); err != nil {
		return err
	}
	a.Sessions, err = collect(ctx, tx, pgx.RowToStructByPos[Session], sessions)
	return err
}

var (
	createEnum = regexp.MustCompile(`(?s)CREATE TYPE (\w+) AS ENUM \((.*?)\)`)
	enumValue  = regexp.MustCompile(`'(\w+)'`)
)

// differences cuts out of the first migration the query it refuses by, and the values of its enums.
func differences(fsys fs.FS) (query string, enums, labels []string, err error) {
	known, err := steps(fsys)
	if err != nil {
		return "", nil, nil, err
	}
	up, _, err := statements(fsys, known[0])
	if err != nil {
		return "", nil, nil, err
	}
	_, rest, begins := strings.Cut(up,
		"-- migrate --dry-run reads what follows, up to its end, from here.\n")
	query, _, ends := strings.Cut(rest, "-- That was its end.\n")
	if !begins || !ends {
		return "", nil, nil, fmt.Errorf("%s: no query for what differs", known[0])
	}
	for _, enum := range createEnum.FindAllStringSubmatch(up, -1) {
		for _, value := range enumValue.FindAllStringSubmatch(enum[2], -1) {
			enums, labels = append(enums, enum[1]), append(labels, value[1])
		}
	}
	return query, enums, labels, nil
}

// ownerDiffers and enumDiffers continue that query with what the migration asks apart.
const ownerDiffers = `
 UNION ALL
SELECT 'table', 'belongs to ' || pg_get_userbyid(c.relowner), format('ALTER TABLE outbox_events OWNER TO %I', current_user)
  FROM pg_class AS c WHERE c.oid = to_regclass('outbox_events') AND pg_get_userbyid(c.relowner) <> current_user`

// $1 are the enums and $2 the values that the migration creates them with.
const enumDiffers = `
 UNION ALL
SELECT v.enum, 'lacks the value ' || v.label, format('ALTER TYPE %s ADD VALUE %L', v.enum, v.label)
  FROM unnest($1::text[], $2::text[]) AS v(enum, label)
 WHERE to_regtype(v.enum) = (SELECT atttypid FROM pg_attribute WHERE attrelid = to_regclass('outbox_events') AND attname = replace(v.enum, '_enum', ''))
   AND NOT EXISTS (SELECT FROM pg_enum AS e WHERE e.enumtypid = to_regtype(v.enum) AND e.enumlabel = v.label)`

// harmless lists what an adopted table may have more than a new one.
const harmless = `
SELECT coalesce(array_agg(line ORDER BY line), '{}') FROM (
    SELECT 'column ' || a.attname || ', which outboxctl leaves alone' AS line
      FROM pg_attribute AS a
     WHERE a.attrelid = to_regclass('outbox_events') AND a.attnum > 0 AND NOT a.attisdropped
       AND a.attname NOT IN ('id', 'event_type', 'aggregate_type', 'aggregate_id', 'payload_json', 'created_at', 'published_at', 'attempt_count', 'last_error')
     UNION ALL
    SELECT 'default of ' || a.attname || ': ' || pg_get_expr(d.adbin, d.adrelid)
      FROM pg_attribute AS a JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = to_regclass('outbox_events') AND a.attgenerated = ''
       AND (a.attname IN ('id', 'event_type', 'aggregate_type', 'aggregate_id', 'payload_json')
            OR a.attname = 'created_at' AND pg_get_expr(d.adbin, d.adrelid) <> 'now()')
     UNION ALL
    SELECT 'index ' || c.relname || ', which costs every write'
      FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
     WHERE i.indrelid = to_regclass('outbox_events') AND NOT i.indisunique
       AND pg_get_indexdef(i.indexrelid) !~ 'USING btree \((published_at|event_type|aggregate_type, aggregate_id)\)$'
) AS lines`

// sizes reads the figures of the table, and what has to be known before it is changed.
const sizes = `
SELECT CASE WHEN (SELECT format_type(a.atttypid, NULL) FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'event_type')
                 IN ('text', 'character varying') THEN 'text' ELSE 'enum' END,
       -- As the planner does: what was counted last, for the pages that there are now. -1 is a table of which nothing is known.
       CASE WHEN c.reltuples > 0 AND c.relpages > 0
            THEN (c.reltuples / c.relpages * (pg_relation_size(c.oid) / current_setting('block_size')::int))::bigint ELSE -1 END,
       pg_table_size(c.oid), pg_indexes_size(c.oid),
       ARRAY(
    SELECT 'unique index ' || x.relname || ': an event that it keeps out makes outbox_emit fail with OX008'
      FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
     WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary AND x.relname <> 'outbox_events_dedupe_idx'
     UNION ALL
    SELECT 'trigger ' || g.tgname || ': a function of it that names no schema must set its own search_path'
      FROM pg_trigger AS g
     WHERE g.tgrelid = c.oid AND NOT g.tgisinternal AND g.tgname !~ '^outbox_events_(refuse|wake)'
     UNION ALL
    SELECT 'publication ' || p.pubname || ': its subscribers need the new columns first, and every waiting row is sent once more'
      FROM pg_publication_tables AS p WHERE (p.schemaname || '.' || p.tablename) = (SELECT nspname FROM pg_namespace WHERE oid = c.relnamespace) || '.outbox_events'
     UNION ALL
    SELECT 'logical replication slot ' || s.slot_name || ': it reads all that is logged'
      FROM pg_replication_slots AS s WHERE s.slot_type = 'logical' AND s.database = current_database()
     UNION ALL
    (SELECT format('session %s (%s) has had a transaction open for %s: building indexes waits for its end', s.pid, s.application_name, date_trunc('second', now() - s.xact_start))
      FROM pg_stat_activity AS s
     WHERE s.datname = current_database() AND s.xact_start < now() - interval '1 minute' AND s.pid <> pg_backend_pid()
     ORDER BY s.xact_start LIMIT 3))
  FROM pg_class AS c WHERE c.oid = to_regclass('outbox_events')`

// sampledRows estimates the rows of a table without statistics from about a thousand of its pages.
const sampledRows = `
SELECT (count(*) * greatest(pages / 1000.0, 1))::bigint
  FROM (SELECT pg_relation_size('outbox_events') / current_setting('block_size')::int AS pages) AS size,
       outbox_events TABLESAMPLE SYSTEM (least(100, 100000.0 / greatest(
           (SELECT pg_relation_size('outbox_events') / current_setting('block_size')::int), 1)))
 GROUP BY pages
 UNION ALL SELECT 0
 ORDER BY 1 DESC LIMIT 1`

// sessions lists who uses the table: by the locks of an open transaction, or else by the last
// statement, of which nothing is shown. Locking rows without changing them is what publishers do.
const sessions = `
SELECT s.pid, coalesce(s.usename, '')::text, s.application_name,
       CASE WHEN l.modes @> '{RowShareLock}' OR s.query ~* '\mfor (no key )?update\M|\mset\M.*\mpublished_at\M' THEN 'publishes'
            WHEN l.modes @> '{RowExclusiveLock}' OR s.query ~* '^\s*(with|insert|update|delete|select outbox_emit)' THEN 'writes'
            ELSE 'reads' END, s.xact_start
  FROM pg_stat_activity AS s
  LEFT JOIN (SELECT pid, array_agg(mode) AS modes FROM pg_locks WHERE relation = to_regclass('outbox_events') AND granted GROUP BY pid) AS l ON l.pid = s.pid
 WHERE s.datname = current_database() AND s.pid <> pg_backend_pid() AND s.backend_type = 'client backend'
   AND (l.modes IS NOT NULL OR s.query ~ '\moutbox_e(vents|mit)')
 ORDER BY s.xact_start NULLS LAST, s.pid
 LIMIT 50`

// What steps cost, on a machine that is neither idle nor overloaded and has to read part of the
// table from disk.
const (
	scanBytesPerSecond = 400e6
	secondsPerNumber   = 60e-6 // to give one waiting row its turn
	secondsPerEntry    = 1e-6  // to sort one row into an index
	bytesPerEntry      = 40
	walPerNumber       = 3000 // beside the row itself: pages of its indexes are logged whole
)

// estimate computes what the pending steps take. Steps that only write the catalogue of PostgreSQL
// take milliseconds and are not listed.
func (a *Adoption) estimate(opts Options) {
	if !a.Exists || len(a.Blocked) > 0 {
		return
	}
	scan := float64(a.TableBytes) / scanBytesPerSecond
	rows, waiting := float64(a.Rows), float64(a.Waiting)
	row := float64(a.TableBytes) / max(1, rows)
	for _, e := range []struct {
		version int64
		Estimate
		growth, wal float64
	}{
		{2, Estimate{"columns", 5 * scan, "adds columns without touching a row, and reads the table five times to validate five checks"}, 0, 0},
		{2, Estimate{"order", 2*scan + waiting*secondsPerNumber*(1+max(0, opts.Pace)),
			"numbers the rows that wait, in batches of 2,000 with a pause after each"}, waiting * (row + bytesPerEntry), waiting * (row + walPerNumber)},
		{3, Estimate{"indexes", 16*scan + rows*secondsPerEntry, "builds partial indexes beside production and drops the full ones"},
			rows * bytesPerEntry / 2, rows * bytesPerEntry},
	} {
		if e.version > a.Database {
			a.Steps = append(a.Steps, e.Estimate)
			a.Seconds += e.Seconds
			a.GrowthBytes += int64(e.growth)
			a.WALBytes += int64(e.wal)
		}
	}
}

package doctor

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/migrations"
)

// expectedSchema is what a freshly migrated database has, one object a line, as readSchema finds
// it. A test keeps it so.
//
//go:embed schema.txt
var expectedSchema string

// An object is a part of the schema.
type object struct {
	Kind  string
	Table string // what it belongs to; empty for functions
	Name  string
	// State is what must be as expected; the rest only tells the objects apart.
	State string
	// Make is the statement that creates it, where there is a short one.
	Make string
}

func (o object) id() string { return o.Kind + " " + o.label() }

func (o object) label() string {
	if o.Kind == "column" || o.Kind == "constraint" || o.Kind == "trigger" {
		return o.Table + "." + o.Name
	}
	return o.Name
}

// The types of three columns differ between installations: those of outbox_events may be one of
// several, and the other tables must have the same. variable is what they are called while they are
// so.
const variable = `
CASE WHEN a.attname NOT IN ('event_type', 'aggregate_type', 'aggregate_id') OR t.relname NOT IN ('outbox_events', 'outbox_dlq', 'outbox_event_status')
     THEN NULL
     WHEN t.relname <> 'outbox_events' THEN
          (SELECT 'the type it has in outbox_events' FROM pg_attribute AS e
            WHERE e.attrelid = to_regclass('outbox_events') AND e.attname = a.attname AND (e.atttypid, e.atttypmod) = (a.atttypid, a.atttypmod))
     WHEN a.attname = 'aggregate_id' THEN
          CASE WHEN format_type(a.atttypid, NULL) IN ('uuid', 'text', 'character varying', 'bigint', 'integer') THEN 'uuid, text or integer' END
     WHEN format_type(a.atttypid, NULL) IN ('text', 'character varying') OR a.atttypid = to_regtype(a.attname || '_enum') THEN 'enum or text'
END`

// Only what every supported version of PostgreSQL prints in the same way is compared: a view by its
// columns, a constraint by its name, a function by its settings and its text without the schema's
// name. An adopted table may call its primary key as it likes. The trigger that wakes publishers
// may be switched off (docs/publishing.md).
const readSchema = `
WITH home AS (
    SELECT n.oid AS id, regexp_replace(quote_ident(n.nspname), '(\W)', '\\\1', 'g') AS name
      FROM pg_namespace n
     WHERE n.oid = coalesce((SELECT relnamespace FROM pg_class WHERE oid = to_regclass('outbox_events')), to_regnamespace(quote_ident(current_schema())))
), tables AS (
    SELECT c.oid, c.relname, c.relkind
      FROM pg_class c JOIN home ON home.id = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'v') AND c.relname ~ '^(outbox|inbox)_' AND c.relname <> 'outbox_schema_version'
)
SELECT CASE relkind WHEN 'v' THEN 'view' ELSE 'table' END, relname::text, relname::text, '', '' FROM tables
UNION ALL
SELECT 'column', t.relname, a.attname, coalesce(` + variable + `, format_type(a.atttypid, a.atttypmod)) || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END, ''
  FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint', t.relname, CASE c.contype WHEN 'p' THEN 'primary key' ELSE c.conname END,
       CASE WHEN c.convalidated THEN 'valid' ELSE 'not validated' END, pg_get_constraintdef(c.oid, true)
  FROM tables t JOIN pg_constraint c ON c.conrelid = t.oid AND c.contype IN ('p', 'u', 'c', 'f', 'x')
UNION ALL
SELECT 'index', t.relname, c.relname,
       CASE WHEN i.indisvalid AND i.indisready THEN pg_get_indexdef(c.oid, 0, true) ELSE 'invalid' END, ''
  FROM tables t JOIN pg_index i ON i.indrelid = t.oid JOIN pg_class c ON c.oid = i.indexrelid
 WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = t.oid)
UNION ALL
SELECT 'trigger', t.relname, g.tgname,
       CASE WHEN g.tgenabled IN ('O', 'A') OR g.tgname = 'outbox_events_wake' THEN 'enabled' ELSE 'disabled' END, pg_get_triggerdef(g.oid, true)
  FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid AND NOT g.tgisinternal
UNION ALL
SELECT 'function', '', p.proname || '(' || oidvectortypes(p.proargtypes) || ')',
       md5(regexp_replace(p.prosrc, home.name || '\.(outbox_|inbox_|event_type_enum|aggregate_type_enum)', '\1', 'g')) || CASE WHEN p.prosecdef THEN ' definer' ELSE '' END
           || coalesce(' ' || array_to_string(p.proconfig, ' '), ''), ''
  FROM pg_proc p JOIN home ON home.id = p.pronamespace
 WHERE p.proname ~ '^outbox_'`

// querier is what reading the schema needs.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// drift compares the schema with the expected one, indexes or all else. What is there beside it
// does not matter.
func drift(ctx context.Context, db querier, want func(object) bool) ([]Finding, int, error) {
	rows, err := db.Query(ctx, readSchema)
	if err != nil {
		return nil, 0, err
	}
	objects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[object])
	if err != nil {
		return nil, 0, err
	}
	there := map[string]object{}
	for _, o := range objects {
		there[o.id()] = o
	}
	var found []Finding
	compared := 0
	lines := bufio.NewScanner(strings.NewReader(expectedSchema))
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		o := object{Kind: f[0], Table: f[1], Name: f[2], State: f[3], Make: f[4]}
		if !want(o) {
			continue
		}
		compared++
		switch actual, exists := there[o.id()]; {
		case !exists && o.orphan(there):
			// Its table is missing: that is one finding, not twenty.
		case !exists:
			found = append(found, fail(o.remedy(object{}), "%s %s is missing", o.Kind, o.label())...)
		case actual.State != o.State:
			found = append(found, fail(o.remedy(actual), "%s %s", o.id(), o.difference(actual))...)
		}
	}
	return found, compared, lines.Err()
}

// Drift returns what of the schema, indexes aside, is missing or not as the migrations of this
// binary made it.
func Drift(ctx context.Context, db querier) ([]Finding, error) {
	found, _, err := drift(ctx, db, func(o object) bool { return o.Kind != "index" })
	return found, err
}

// orphan reports whether the table or view of an object is missing.
func (o object) orphan(there map[string]object) bool {
	if o.Table == "" || o.Kind == "table" || o.Kind == "view" {
		return false
	}
	_, table := there["table "+o.Table]
	_, view := there["view "+o.Table]
	return !table && !view
}

func (o object) difference(actual object) string {
	if o.Kind == "function" {
		return "is not the one that migrate created"
	}
	return fmt.Sprintf("is %s, expected is %s", actual.State, o.State)
}

// remedy names the statement to run; migrate does not repeat a step it has taken. actual is empty
// when the object is missing.
func (o object) remedy(actual object) string {
	missing := actual.Kind == ""
	switch {
	case o.Kind == "index":
		build := strings.Replace(o.State, "INDEX ", "INDEX CONCURRENTLY ", 1)
		if missing {
			return build
		}
		return fmt.Sprintf("DROP INDEX CONCURRENTLY %s; %s", o.Name, build)
	case o.Kind == "column" && (strings.Contains(o.State, " or ") || strings.HasPrefix(o.State, "the type")):
		return "restore the schema from a backup: outboxctl does not convert columns"
	case o.Kind == "column" && missing:
		return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s, with the default it has in migrations/", o.Table, o.Name, o.State)
	case o.Kind == "column" && strings.TrimSuffix(o.State, " not null") == actual.State:
		return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL", o.Table, o.Name)
	case o.Kind == "column" && strings.TrimSuffix(actual.State, " not null") == o.State:
		return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", o.Table, o.Name)
	case o.Kind == "column":
		return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s", o.Table, o.Name, strings.TrimSuffix(o.State, " not null"))
	case o.Kind == "constraint" && missing && o.Name == "primary key":
		return fmt.Sprintf("ALTER TABLE %s ADD %s", o.Table, o.Make)
	case o.Kind == "constraint" && missing:
		return fmt.Sprintf("ALTER TABLE %s ADD CONSTRAINT %s %s", o.Table, o.Name, o.Make)
	case o.Kind == "constraint":
		return fmt.Sprintf("ALTER TABLE %s VALIDATE CONSTRAINT %s", o.Table, o.Name)
	case o.Kind == "trigger" && missing:
		return o.Make
	case o.Kind == "trigger":
		return fmt.Sprintf("ALTER TABLE %s ENABLE TRIGGER %s", o.Table, o.Name)
	default:
		return fmt.Sprintf("create it as migrations/%s of this version does, or restore the schema from a backup", o.source())
	}
}

// source is the migration that creates a table, a view or a function.
func (o object) source() string {
	name, _, _ := strings.Cut(o.Name, "(")
	create := regexp.MustCompile(`CREATE (TABLE|VIEW|FUNCTION) ` + name + `\b`)
	files, _ := fs.Glob(migrations.FS, "*.sql") // fails only on a malformed pattern
	for _, file := range files {
		if text, err := migrations.FS.ReadFile(file); err == nil && create.Match(text) {
			return file
		}
	}
	return ""
}

// selectForeign lists what is not outboxctl's and can keep an event out of the table: outbox_emit
// then fails with OX008, a plain INSERT in its own way.
const selectForeign = `
SELECT 'unique index ' || c.relname
  FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
 WHERE i.indrelid = to_regclass('outbox_events') AND (i.indisunique OR i.indisexclusion) AND NOT i.indisprimary AND c.relname <> 'outbox_events_dedupe_idx'
 UNION ALL
SELECT 'trigger ' || g.tgname
  FROM pg_trigger AS g
 WHERE g.tgrelid = to_regclass('outbox_events') AND NOT g.tgisinternal AND g.tgenabled <> 'D' AND g.tgtype & 7 = 7 -- BEFORE INSERT … FOR EACH ROW
   AND g.tgname <> 'outbox_events_refuse_inflated'
 ORDER BY 1`

func (d Database) foreign(ctx context.Context) ([]Finding, error) {
	names, err := outbox.Column[string](ctx, d.Pool, "look for what is not outboxctl's", selectForeign)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	var found []Finding
	for _, name := range names {
		remedy := "make sure that it lets every event in; nothing of outboxctl needs it"
		if index, ok := strings.CutPrefix(name, "unique index "); ok {
			remedy = fmt.Sprintf("make sure that no two events share its values, or DROP INDEX CONCURRENTLY %s", pgx.Identifier{index}.Sanitize())
		}
		found = append(found, warn(remedy, "%s on outbox_events is not outboxctl's: an event that it keeps out makes outbox_emit fail with OX008", name)...)
	}
	return found, nil
}

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// OldestServer is the oldest major version of PostgreSQL that is supported.
const OldestServer = 14

// TooOld is the error about a server older than OldestServer.
func TooOld(version string) error {
	return fault.Hint(fault.Preconditionf("PostgreSQL %s is too old, %d is the oldest that is supported", version, OldestServer),
		"upgrade to PostgreSQL %d or newer", OldestServer)
}

// foreignServer names the server that is none of PostgreSQL's, by what version() says.
func foreignServer(version string) string {
	switch {
	case strings.HasPrefix(version, "CockroachDB"):
		return "CockroachDB"
	case strings.Contains(version, "-YB-"):
		return "YugabyteDB"
	}
	return ""
}

// checkServer refuses a server on which migrating is impossible or unsafe.
func checkServer(ctx context.Context, db querier, opts Options) error {
	return inCatalogue(ctx, db, func(tx pgx.Tx, schema string) error {
		var number int
		var version, whole string
		err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), version()`).Scan(&number, &version, &whole)
		if err != nil {
			return fmt.Errorf("ask for the server's version: %w", err)
		}
		if name := foreignServer(whole); name != "" {
			return fault.Hint(fault.Preconditionf("%s is not supported: its advisory locks and notifications do nothing, and order and leases rely on them",
				name),
				"use PostgreSQL %d or newer", OldestServer)
		}
		if number < opts.oldest*10000 {
			return TooOld(version)
		}
		// Migrating would run them with the rights of the user who migrates. A few are enough to see
		// what is going on.
		hidden, err := list(ctx, tx, `
SELECT o.name || ' of ' || pg_get_userbyid(o.owner)
  FROM (SELECT format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) AS name, p.proowner AS owner, p.pronamespace AS schema
          FROM pg_proc AS p
         WHERE EXISTS (SELECT FROM pg_proc AS c WHERE c.proname = p.proname AND c.pronamespace = 'pg_catalog'::regnamespace)
         UNION ALL
        SELECT format('operator %s (%s, %s)', p.oprname, format_type(nullif(p.oprleft, 0), NULL), format_type(p.oprright, NULL)), p.oprowner, p.oprnamespace
          FROM pg_operator AS p
         WHERE EXISTS (SELECT FROM pg_operator AS c WHERE c.oprname = p.oprname AND c.oprnamespace = 'pg_catalog'::regnamespace)) AS o
 WHERE o.schema = $1::text::regnamespace AND NOT `+trusted("o.owner")+`
 ORDER BY 1
 LIMIT 5`, schema)
		if err != nil {
			return fmt.Errorf("look for hidden functions: %w", err)
		}
		if len(hidden) > 0 {
			return fault.Hint(fault.Preconditionf("schema %s has functions or operators of others that hide PostgreSQL's own: %s",
				schema, strings.Join(hidden, ", ")),
				"find out who made them and why; then drop them and REVOKE CREATE ON SCHEMA %s FROM PUBLIC", schema)
		}
		return nil
	})
}

// checkTypes refuses to ask an outbox for other types than it has.
func checkTypes(ctx context.Context, db querier, opts Options) error {
	if opts.Types == "" {
		return nil
	}
	return inCatalogue(ctx, db, func(tx pgx.Tx, schema string) error {
		found, err := list(ctx, tx, `
SELECT CASE WHEN format_type(a.atttypid, NULL) IN ('text', 'character varying') THEN '`+TypesText+`' ELSE '`+TypesEnum+`' END
  FROM pg_class AS c
  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'event_type' AND NOT a.attisdropped
 WHERE c.relname = 'outbox_events' AND c.relnamespace = $1::text::regnamespace`, schema)
		if err != nil {
			return fmt.Errorf("look for the types of columns: %w", err)
		}
		if len(found) > 0 && found[0] != opts.Types {
			return fault.Hint(fault.Preconditionf("event types are to be %s, but the outbox has them as %s", opts.Types, found[0]),
				"columns keep the type they have: leave the types out, or use a database or a schema of its own")
		}
		return nil
	})
}

// Creators lists who may create in the outbox's schema, PUBLIC for every role, owner, database
// owner and superusers aside. A session with that schema on its search_path runs what they plant
// there.
func Creators(ctx context.Context, db querier) (schema string, creators []string, err error) {
	err = inCatalogue(ctx, db, func(tx pgx.Tx, home string) error {
		schema = home
		creators, err = list(ctx, tx, `
SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END
  FROM pg_namespace AS n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) AS a
 WHERE n.oid = $1::text::regnamespace AND a.privilege_type = 'CREATE' AND NOT `+trusted("a.grantee")+`
 ORDER BY a.grantee`, home)
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("look who may create in the schema: %w", err)
	}
	return schema, creators, nil
}

// trusted is the condition that a role could do worse anyway: a superuser, the owner of the
// database, of the schema or of the outbox, and the user who asks.
func trusted(role string) string {
	return `(EXISTS (SELECT FROM pg_roles AS r WHERE r.oid = ` + role + ` AND (r.rolsuper OR r.rolname = current_user))
      OR ` + role + ` IN (SELECT d.datdba FROM pg_database AS d WHERE d.datname = current_database()
                          UNION ALL SELECT n.nspowner FROM pg_namespace AS n WHERE n.oid = $1::text::regnamespace
                          UNION ALL SELECT c.relowner FROM pg_class AS c WHERE c.relname = 'outbox_events' AND c.relnamespace = $1::text::regnamespace))`
}

// inCatalogue runs a read-only transaction in which no name means anything but PostgreSQL's own.
// schema, quoted, is the one with the outbox, or the one that it would be created in.
func inCatalogue(ctx context.Context, db querier, ask func(tx pgx.Tx, schema string) error) error {
	return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var schema *string
		var table *uint32
		err := tx.QueryRow(ctx, `SELECT pg_catalog.quote_ident(pg_catalog.current_schema()), pg_catalog.to_regclass('outbox_events')::pg_catalog.oid`).
			Scan(&schema, &table)
		if err != nil {
			return fmt.Errorf("look for the schema: %w", err)
		}
		if _, err := tx.Exec(ctx, `SET LOCAL search_path = pg_catalog`); err != nil {
			return err
		}
		if table != nil {
			if err := tx.QueryRow(ctx, `SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = $1`, *table).Scan(&schema); err != nil {
				return fmt.Errorf("look for the schema: %w", err)
			}
		}
		if schema == nil {
			return errors.New("no schema of the search_path exists")
		}
		return ask(tx, *schema)
	})
}

func list(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]string, error) {
	return collect(ctx, tx, pgx.RowTo[string], sql, args...)
}

func collect[T any](ctx context.Context, tx pgx.Tx, to pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, to)
}

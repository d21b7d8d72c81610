package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// roles looks for roles of ours with rights in another database too, as a restored dump or a copied
// database leaves them.
func (d Database) roles(ctx context.Context) ([]Finding, error) {
	const elsewhere = `
SELECT DISTINCT r.rolname::text, there.datname::text
  FROM pg_roles AS r
  JOIN pg_shdepend AS s ON s.refclassid = 'pg_authid'::regclass AND s.refobjid = r.oid
  JOIN pg_database AS there ON there.oid = s.dbid AND there.datname <> current_database()
 WHERE r.rolname = ANY ($1::text[])
   AND EXISTS (SELECT FROM pg_shdepend AS h JOIN pg_database AS here ON here.oid = h.dbid
                WHERE here.datname = current_database() AND h.refclassid = s.refclassid AND h.refobjid = r.oid
                  AND h.classid = 'pg_class'::regclass AND h.objid = to_regclass('outbox_events'))
 ORDER BY 1, 2`
	var roles, databases []string
	var role, database string
	into := []any{&role, &database}
	err := outbox.Each(ctx, d.Pool, "read the roles", elsewhere, []any{migrate.Roles()}, into, func() {
		roles, databases = append(roles, role), append(databases, database)
	})
	if err != nil {
		return nil, err
	}
	if len(roles) == 0 {
		return d.granted(ctx)
	}
	slices.Sort(databases)
	roles, databases = slices.Compact(roles), slices.Compact(databases)
	return warn("give each database roles of its own with outboxctl migrate grants, and revoke these",
		"%s have rights in %s too: a member has them in both", strings.Join(roles, ", "), strings.Join(databases[:min(3, len(databases))], ", ")), nil
}

// granted looks whether the roles that the server has may read events here: migrate grants nothing
// to those of another database. Roles of one's own in their place are as good.
func (d Database) granted(ctx context.Context) ([]Finding, error) {
	var without, others []string
	err := d.Pool.QueryRow(ctx, `
WITH granted AS (
    SELECT r.rolname::text AS role
      FROM pg_shdepend AS s JOIN pg_roles AS r ON r.oid = s.refobjid
     WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND s.refclassid = 'pg_authid'::regclass
       AND s.deptype = 'a' AND s.classid = 'pg_class'::regclass AND s.objid = to_regclass('outbox_events'))
SELECT ARRAY(SELECT rolname::text FROM pg_roles WHERE rolname = ANY ($1::text[]) EXCEPT SELECT role FROM granted ORDER BY 1),
       ARRAY(SELECT DISTINCT role FROM granted WHERE role <> ALL ($1::text[]) ORDER BY 1)`, migrate.Roles()).Scan(&without, &others)
	if err != nil {
		return nil, err
	}
	switch names := strings.Join(without, ", "); {
	case len(without) == 0:
		return ok("none has rights in another database"), nil
	case len(others) > 0:
		return ok("%s have rights here, %s have none", strings.Join(others, ", "), names), nil
	default:
		return warn("create roles for this database and run what outboxctl migrate grants --viewer ROLE --operator ROLE prints; ui.read_role names the viewer",
			"without rights in this database: %s; their members are refused, and the page reads with its login's own rights", names), nil
	}
}

package migrate_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/migrations"
)

// cluster starts a server of the test's own, in which the roles do not exist yet: they belong to the cluster.
func cluster(t *testing.T) (server *devstack.Postgres, admin *pgxpool.Pool) {
	t.Helper()
	server, _ = outboxtest.Postgres(t, devstack.PostgresParams{})
	admin = outboxtest.Pool(t, server.URL("postgres"))
	exec(t, admin, "DROP DATABASE outbox WITH (FORCE)")
	for _, role := range migrate.Roles() {
		exec(t, admin, "DROP ROLE "+role)
	}
	return server, admin
}

// as opens a pool on the same database for another login, whose password is its name.
func as(t *testing.T, url, login string) *pgxpool.Pool {
	t.Helper()
	cfg := outboxtest.Pool(t, url).Config()
	cfg.ConnConfig.User, cfg.ConnConfig.Password = login, login
	return openPool(t, cfg)
}

// A hosted cluster lets its user create no role: that is told, and everything else is there.
func TestClusterThatForbidsCreatingRoles(t *testing.T) {
	t.Parallel()
	server, admin := cluster(t)
	exec(t, admin, "CREATE ROLE hosted LOGIN PASSWORD 'hosted'")
	exec(t, admin, "CREATE DATABASE hosted OWNER hosted")
	hosted := as(t, server.URL("hosted"), "hosted")
	res, err := migrate.Up(t.Context(), hosted, migrate.Options{})
	require.NoError(t, err)
	require.Equal(t, migrate.Roles(), res.MissingRoles)
	require.Empty(t, res.ForeignRoles)
	require.Len(t, queryAll(t, hosted, "SELECT id::text FROM outbox_emit('order_created', NULL, gen_random_uuid(), '{}')"), 1)
}

// A member of a role for one database must not get its rights in the next one that is migrated on the same server.
func TestOperatorOfOneDatabaseCannotReadAnother(t *testing.T) {
	t.Parallel()
	server, admin := cluster(t)
	for _, login := range []string{"alice", "bob"} {
		exec(t, admin, "CREATE ROLE "+login+" LOGIN PASSWORD '"+login+"'")
	}
	pools := map[string]*pgxpool.Pool{}
	migrated := func(database string) migrate.Result {
		exec(t, admin, "CREATE DATABASE "+database)
		pools[database] = outboxtest.Pool(t, server.URL(database))
		res, err := migrate.Up(t.Context(), pools[database], migrate.Options{})
		require.NoError(t, err)
		require.Empty(t, res.MissingRoles)
		exec(t, pools[database], insert)
		return res
	}
	attempts := map[string]string{
		"outbox_operator":   "SELECT payload_json FROM outbox_events",
		"outbox_dispatcher": "UPDATE outbox_events SET last_error = NULL",
		"outbox_emitter":    "SELECT outbox_emit_many('[]'::jsonb)",
		"outbox_viewer":     "SELECT id FROM outbox_events",
	}
	states := func(login, database string) (out []string) {
		pool := as(t, server.URL(database), login)
		for _, role := range migrate.Roles() {
			_, err := pool.Exec(t.Context(), attempts[role])
			out = append(out, state(t, err))
		}
		return out
	}
	may, mayNot := slices.Repeat([]string{allowed}, 4), slices.Repeat([]string{denied}, 4)

	require.Empty(t, migrated("shop").ForeignRoles)
	exec(t, admin, "GRANT "+strings.Join(migrate.Roles(), ", ")+" TO alice")
	require.Equal(t, may, states("alice", "shop"))
	require.Equal(t, migrate.Roles(), migrated("billing").ForeignRoles, "told, so that an operator can grant them")
	require.Equal(t, mayNot, states("alice", "billing"))

	// On request the second database grants to roles of its own.
	names := map[string]string{}
	for _, role := range migrate.Roles() {
		names[role] = strings.Replace(role, "outbox", "billing", 1)
		exec(t, admin, "CREATE ROLE "+names[role])
		exec(t, admin, "GRANT "+names[role]+" TO bob")
	}
	statements, err := migrate.Grants(migrations.FS, names)
	require.NoError(t, err)
	for _, s := range statements {
		exec(t, pools["billing"], s)
	}
	require.Equal(t, may, states("bob", "billing"))
	require.Equal(t, mayNot, states("bob", "shop"))
	require.Equal(t, mayNot, states("alice", "billing"))

	// The members of a role that a database left behind are no members of the next one.
	pools["shop"].Close()
	exec(t, admin, "DROP DATABASE shop WITH (FORCE)")
	require.Equal(t, migrate.Roles(), migrated("returns").ForeignRoles)
	require.Equal(t, mayNot, states("alice", "returns"))
	exec(t, admin, "REVOKE "+strings.Join(migrate.Roles(), ", ")+" FROM alice")
	require.Empty(t, migrated("stock").ForeignRoles, "without members they are unused")
}

// Several databases migrated for the first time at once all want to create the same roles; one of them gets them. The
// same goes for roles that exist and are unused.
func TestOneOfManyDatabasesGetsTheRoles(t *testing.T) {
	t.Parallel()
	server, admin := cluster(t)
	const databases = 4
	for _, round := range []string{"new", "left"} {
		var pools [databases]*pgxpool.Pool
		for i := range databases {
			name := round + strconv.Itoa(i)
			exec(t, admin, "CREATE DATABASE "+name)
			pools[i] = outboxtest.Pool(t, server.URL(name))
			_, err := migrate.Up(t.Context(), pools[i], migrate.Options{To: 9})
			require.NoError(t, err)
		}
		var (
			all     sync.WaitGroup
			errs    [databases]error
			results [databases]migrate.Result
		)
		for i, pool := range pools {
			all.Go(func() { results[i], errs[i] = migrate.Up(context.WithoutCancel(t.Context()), pool, migrate.Options{}) })
		}
		all.Wait()
		require.Equal(t, [databases]error{}, errs)
		granted := 0
		for i, pool := range pools {
			require.Contains(t, []int{0, len(migrate.Roles())}, len(results[i].ForeignRoles), "all or none")
			granted += len(migrate.Roles()) - len(results[i].ForeignRoles)
			pool.Close()
			exec(t, admin, "DROP DATABASE "+round+strconv.Itoa(i)+" WITH (FORCE)")
		}
		require.Equal(t, len(migrate.Roles()), granted, round)
	}
}

package migrate_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// Roles belong to the cluster, so these stories need one of their own in which nobody has created them yet.
func TestClusterWithoutTheRoles(t *testing.T) {
	t.Parallel()
	server, _ := outboxtest.Postgres(t, devstack.PostgresParams{})
	admin := outboxtest.Pool(t, server.URL("postgres"))
	exec(t, admin, "DROP DATABASE outbox WITH (FORCE)")
	for _, role := range migrate.Roles() {
		exec(t, admin, "DROP ROLE "+role)
	}

	// A hosted cluster lets its user create no role: that is told, and everything else is there.
	exec(t, admin, "CREATE ROLE hosted LOGIN")
	exec(t, admin, "CREATE DATABASE hosted OWNER hosted")
	cfg := outboxtest.Pool(t, server.URL("hosted")).Config()
	cfg.ConnConfig.User = "hosted"
	hosted := openPool(t, cfg)
	res, err := migrate.Up(t.Context(), hosted, migrate.Options{})
	require.NoError(t, err)
	require.Equal(t, migrate.Roles(), res.MissingRoles)
	require.Len(t, queryAll(t, hosted, "SELECT id::text FROM outbox_emit('order_created', NULL, gen_random_uuid(), '{}')"), 1)
	res, err = migrate.Down(t.Context(), hosted, migrate.Options{To: migrate.AllSteps})
	require.NoError(t, err)
	require.Zero(t, res.To)

	// Several databases migrated for the first time at once all want to create the same roles.
	const databases = 4
	var pools [databases]*pgxpool.Pool
	for i := range databases {
		name := "shop" + strconv.Itoa(i)
		exec(t, admin, "CREATE DATABASE "+name)
		pools[i] = outboxtest.Pool(t, server.URL(name))
		_, err := migrate.Up(t.Context(), pools[i], migrate.Options{To: 9})
		require.NoError(t, err)
	}
	var (
		all  sync.WaitGroup
		errs [databases]error
	)
	for i, pool := range pools {
		all.Go(func() { _, errs[i] = migrate.Up(context.WithoutCancel(t.Context()), pool, migrate.Options{}) })
	}
	all.Wait()
	require.Equal(t, [databases]error{}, errs)
}

package outboxtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// Servers of one run that start at the same time begin as one cluster and share nothing afterwards; what a killed process left
// half copied is not taken for a cluster.
func TestServersOfARunAreCopiesOfOneCluster(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(run, "cluster.new", "postgres"), 0o700))
	var servers [2]*devstack.Postgres
	var errs [2]error
	var started sync.WaitGroup
	for i := range servers {
		dir, err := shared.serverDir()
		require.NoError(t, err)
		started.Go(func() { servers[i], errs[i] = startPostgres(t.Context(), run, devstack.PostgresParams{Dir: dir}) })
	}
	started.Wait()
	var clusters [2]string
	for i, server := range servers {
		require.NoError(t, errs[i])
		t.Cleanup(func() { require.NoError(t, server.Kill()) })
		pool := Pool(t, server.URL(template))
		var migrated, alone bool
		const look = `SELECT to_regclass('outbox_events') IS NOT NULL, to_regrole('mine') IS NULL, system_identifier::text FROM pg_control_system()`
		require.NoError(t, pool.QueryRow(t.Context(), look).Scan(&migrated, &alone, &clusters[i]))
		require.True(t, migrated)
		require.True(t, alone, "a role of the other server")
		_, err := pool.Exec(t.Context(), "CREATE ROLE mine")
		require.NoError(t, err)
	}
	require.Equal(t, clusters[0], clusters[1])
}

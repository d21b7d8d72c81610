package devstack_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

func TestStackStartsAndStopsAllThree(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	s, err := devstack.Start(t.Context(), devstack.Params{Dir: dir})
	require.NoError(t, err)
	require.Equal(t, "1", query(t, s.Postgres.URL("postgres"), "SELECT '1'"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Watch(ctx), "an end that was asked for is no error")
	require.NoError(t, s.Postgres.Kill())
	require.ErrorContains(t, s.Watch(t.Context()), "keep PostgreSQL running: it has ended by itself; its log says:")
	require.NoError(t, s.Stop(t.Context()))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	require.NotEmpty(t, devstack.StateOf(dir))
	require.NoError(t, devstack.RemoveState(t.Context(), dir, os.Stderr))
	require.Empty(t, devstack.StateOf(dir))
	require.FileExists(t, filepath.Join(dir, "mine"))
}

func TestStackLeavesNothingRunningWhenOneServerFails(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), nil, 0o600), "no place for a cluster")
	_, err := devstack.Start(t.Context(), devstack.Params{Dir: dir})
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "redis", "redis.pid"))
}

func TestServersNeedAFolderTheirUserCanEnter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root's servers run as another user")
	}
	closed := stateDir(t)
	require.NoError(t, os.Chmod(closed, 0o700))
	_, err := devstack.StartPostgres(t.Context(), devstack.PostgresParams{Dir: filepath.Join(closed, "state")})
	var unreachable *devstack.UnreachableError
	require.ErrorAs(t, err, &unreachable)
	require.Equal(t, closed, unreachable.Dir)
	require.Contains(t, unreachable.Hint(), "--state-dir")
}

package outboxtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// Replicated starts two servers of the test's own, the second of which follows the first by
// streaming. The database's URL has both hosts and finds the one that can be written to.
func Replicated(t testing.TB) (primary, standby *devstack.Postgres, db *Database) {
	t.Helper()
	ctx := context.Background()
	settings := map[string]string{"wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on"}
	from, err := shared.serverDir()
	require.NoError(t, err)
	primary, db = Postgres(t, devstack.PostgresParams{Dir: from, Settings: settings})
	db.Pool.Close()
	require.NoError(t, primary.Stop(ctx))
	to, err := shared.serverDir()
	require.NoError(t, err)
	require.NoError(t, copyCluster(ctx, from, to))
	require.NoError(t, primary.Restart(ctx))

	first, err := url.Parse(primary.URL("postgres"))
	require.NoError(t, err)
	password, _ := first.User.Password()
	follow := map[string]string{"primary_conninfo": fmt.Sprintf("host=%s port=%s user=%s password=%s application_name=standby",
		first.Hostname(), first.Port(), first.User.Username(), password)}
	for name, value := range settings {
		follow[name] = value
	}
	require.NoError(t, os.WriteFile(filepath.Join(to, "postgres", "standby.signal"), nil, 0o644))
	standby, err = devstack.StartPostgres(ctx, devstack.PostgresParams{Dir: to, Settings: follow})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, standby.Kill()) })

	both, err := url.Parse(primary.URL(db.Name))
	require.NoError(t, err)
	second, err := url.Parse(standby.URL(db.Name))
	require.NoError(t, err)
	both.Host += "," + second.Host
	both.RawQuery += "&target_session_attrs=read-write"
	return primary, standby, &Database{Name: db.Name, URL: both.String(), Pool: Pool(t, both.String())}
}

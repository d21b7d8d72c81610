package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Redis has a default address, which says nothing about there being one.
func TestRedisIsAskedWhereItIsConfigured(t *testing.T) {
	t.Parallel()
	for asked, env := range [][]string{{"OUTBOXCTL_STATE_DIR=" + t.TempDir()}, {"OUTBOXCTL_STATE_DIR=" + t.TempDir(), "REDIS_URL=redis://127.0.0.1:1/0"}} {
		app := NewApp(Streams{}, append(env, "DATABASE_URL=postgres://127.0.0.1:1/x"))
		t.Cleanup(func() { _ = app.Close() })
		_, err := app.Config()
		require.NoError(t, err)
		require.Len(t, app.Probes(), asked)
	}
}

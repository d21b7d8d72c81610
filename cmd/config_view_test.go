package cmd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/ui"
)

// What only the client would refuse is refused with the rest, and not when Redis is first needed.
func TestConfigRefusesABadRedisURL(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"redis://:canary@h:1/zz", "redis://:canary@h/0?nonsense=1", "http://:canary@h", "canary"} {
		code, _, stderr := runCLI(t, []string{"OUTBOXCTL_REDIS_URL=" + bad, "OUTBOXCTL_PUBLISH_LEASE=soon"}, "config", "view")
		require.Equal(t, cli.ExitUsage, code, bad)
		require.Contains(t, stderr, "2 problems")
		require.Contains(t, stderr, "redis.url (env OUTBOXCTL_REDIS_URL): is not a Redis connection string")
		require.NotContains(t, stderr, "canary")
	}
}

// The page in a program of one's own has the defaults that the settings show.
func TestThePageHasTheDefaultsOfItsSettings(t *testing.T) {
	t.Parallel()
	cfg, problems := cli.LoadConfig(cli.ConfigSource{Flag: func(string) (string, bool) { return "", false }})
	require.Empty(t, problems)
	require.Equal(t, ui.DefaultReadRole, cfg.UI.ReadRole)
	require.Equal(t, ui.DefaultRefresh, cfg.UI.Refresh)
	require.Equal(t, ui.DefaultQueryTimeout, cfg.UI.QueryTimeout)
	require.Equal(t, ui.DefaultMaxPlanRows, cfg.UI.MaxPlanRows)
	for _, s := range cli.Settings() {
		if s.Name == "ui.color" {
			require.Contains(t, s.Help, strings.Join(ui.Colors(), ", "))
		}
	}
}

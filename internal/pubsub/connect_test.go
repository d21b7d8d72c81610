package pubsub_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/pubsub"
)

func TestConnectRefuses(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	_, err := pubsub.Connect(t.Context(), pubsub.Config{Emulator: "127.0.0.1:1", PublishTimeout: -1, Concurrency: -1})
	require.ErrorIs(t, err, pubsub.ErrNoProject)
	require.ErrorContains(t, err, "timeouts")
	require.ErrorContains(t, err, "flow limits")
}

// The client library obeys the variable even when our configuration says
// otherwise; production events would go to an emulator.
func TestConnectRefusesAStrayEmulatorVariable(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
	_, err := pubsub.Connect(t.Context(), pubsub.Config{Project: testProject})
	require.ErrorContains(t, err, "PUBSUB_EMULATOR_HOST")
}

// The configured emulator wins over the variable.
func TestConnectPrefersTheConfiguredEmulator(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
	_, publisher := start(t, pubsub.Config{})
	require.NoError(t, publisher.Ready(t.Context(), logical))
}

func TestConnectDialsNothing(t *testing.T) {
	t.Parallel()
	client, err := pubsub.Connect(t.Context(), pubsub.Config{Project: testProject, Emulator: "127.0.0.1:1"})
	require.NoError(t, err)
	require.True(t, client.Emulated())
	require.Equal(t, testProject, client.Project())
	require.NoError(t, client.Close())
}

package broker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker"
)

func TestConnectRefuses(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	_, err := broker.Connect(t.Context(), broker.Config{Emulator: "127.0.0.1:1", PublishTimeout: -1, Concurrency: -1})
	require.ErrorIs(t, err, broker.ErrNoProject)
	require.ErrorContains(t, err, "timeouts")
	require.ErrorContains(t, err, "flow limits")
}

// The client library obeys the variable even when our configuration says
// otherwise; production events would go to an emulator.
func TestConnectRefusesAStrayEmulatorVariable(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
	_, err := broker.Connect(t.Context(), broker.Config{Project: testProject})
	require.ErrorContains(t, err, "PUBSUB_EMULATOR_HOST")
}

// The configured emulator wins over the variable.
func TestConnectPrefersTheConfiguredEmulator(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
	_, publisher := start(t, broker.Config{})
	require.NoError(t, publisher.Ready(t.Context(), logical))
}

func TestConnectDialsNothing(t *testing.T) {
	t.Parallel()
	client, err := broker.Connect(t.Context(), broker.Config{Project: testProject, Emulator: "127.0.0.1:1"})
	require.NoError(t, err)
	require.True(t, client.Emulated())
	require.Equal(t, testProject, client.Project())
	require.NoError(t, client.Close())
}

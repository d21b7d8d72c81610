package pubsub_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
)

func TestConnectRefuses(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	_, err := pubsub.Connect(t.Context(), pubsub.Config{Emulator: "127.0.0.1:1", PublishTimeout: -1, Concurrency: -1})
	require.ErrorIs(t, err, pubsub.ErrNoProject)
	require.ErrorContains(t, err, "timeouts")
	require.ErrorContains(t, err, "flow limits")
}

// Order holds within a region only, so publishers of keys need an endpoint.
func TestOrderNeedsOneRegion(t *testing.T) {
	t.Parallel()
	require.Empty(t, new(pubsub.Client).Findings(false))
	require.Len(t, new(pubsub.Client).Findings(true), 1)
}

// A malformed project refuses every message with the code of a malformed message.
func TestConnectRefusesAMalformedProject(t *testing.T) {
	t.Setenv("PUBSUB_EMULATOR_HOST", "")
	for project, ok := range map[string][2]bool{ // at Google's, with an emulator
		"shop-prod-1":             {true, true},
		"example.com:shop-prod":   {true, true},
		"123456789012":            {true, true},
		"p":                       {false, true},
		"Shop-Prod":               {false, true},
		"shop-prod-":              {false, true},
		"shop prod":               {false, false},
		"projects/shop-prod":      {false, false},
		"shop-prod/topics/domain": {false, false},
		"shop-prod\n":             {false, false},
	} {
		for i, emulated := range []bool{false, true} {
			err := pubsub.ValidateProject(project, emulated)
			require.Equal(t, ok[i], err == nil, "%q, emulated %v: %v", project, emulated, err)
		}
	}
	_, err := pubsub.Connect(t.Context(), pubsub.Config{Project: "shop prod", Emulator: "127.0.0.1:1"})
	require.ErrorContains(t, err, `pub/sub project "shop prod"`)
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

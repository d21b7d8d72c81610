package operate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// unreachable are the parameters of a doctor who finds no server at all.
func unreachable() operate.DoctorParams {
	return operate.DoctorParams{
		Registry: registry.New(), Now: time.Now, NeedsRedis: true, IdempotencyTTL: 720 * time.Hour,
		Database: func(context.Context) (*pgread.DB, error) {
			return nil, errors.New("connect to postgres://app:canary@db/x: refused")
		},
		Broker: func(context.Context, bool) ([]operate.Resource, error) { return nil, errors.New("broker away") },
		Redis: func(context.Context) (consume.ServerReport, error) {
			return consume.ServerReport{}, errors.New("redis away")
		},
	}
}

// levels runs Doctor and returns what it found in one area, level by message.
func levels(t *testing.T, p operate.DoctorParams, area string) map[string]doctor.Level {
	t.Helper()
	findings, err := operate.Doctor(t.Context(), p)
	require.NoError(t, err)
	got := map[string]doctor.Level{}
	for _, f := range findings {
		if f.Area == area {
			got[f.Message] = f.Level
		}
		require.NotContains(t, f.Message, "canary")
		require.True(t, f.Level == doctor.OK || f.Remedy != "", "%+v", f)
	}
	return got
}

// A server that is away is a finding, and the others are examined all the same.
func TestDoctorExaminesWhatItCanReach(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]doctor.Level{"check failed: connect to postgres://app:****@db/x: refused": doctor.Fail}, levels(t, unreachable(), "database"))
	require.Equal(t, map[string]doctor.Level{"check failed: broker away": doctor.Fail}, levels(t, unreachable(), "pubsub"))
	require.Equal(t, map[string]doctor.Level{"check failed: redis away": doctor.Fail}, levels(t, unreachable(), "redis"))
	require.Empty(t, levels(t, unreachable(), "publishers"))
}

func TestDoctorJudgesTheBrokersResources(t *testing.T) {
	t.Parallel()
	p := unreachable()
	p.Broker = func(context.Context, bool) ([]operate.Resource, error) {
		return []operate.Resource{
			{Kind: operate.ResourceTopic, Name: "a", State: operate.ResourceExists},
			{Kind: operate.ResourceTopic, Name: "b", State: operate.ResourceMissing},
			{Kind: operate.ResourceSubscription, Name: "c", State: operate.ResourceMissing},
			{Kind: operate.ResourceSubscription, Name: "d", State: operate.ResourceDiffers, Detail: "of another topic"},
			{Kind: operate.ResourceSubscription, Name: "e", State: operate.ResourceExists, Detail: "no dead-letter policy"},
			{Kind: operate.ResourceTopic, Name: "f", State: operate.ResourceFailed, Detail: "forbidden"},
		}, nil
	}
	require.Equal(t, map[string]doctor.Level{
		"topic b is missing":                    doctor.Fail,
		"subscription c is missing":             doctor.Warn,
		"subscription d: of another topic":      doctor.Warn,
		"subscription e: no dead-letter policy": doctor.Warn,
		"topic f: forbidden":                    doctor.Fail,
		"2 topics and subscriptions exist":      doctor.OK,
	}, levels(t, p, "pubsub"))
	p.Broker = nil
	require.Equal(t, map[string]doctor.Level{"no project is configured": doctor.Warn}, levels(t, p, "pubsub"))
}

func TestDoctorFindsAnEmulatorBesideARemoteDatabase(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		emulator string
		remote   bool
		want     doctor.Level
	}{
		"production": {"", true, doctor.OK},
		"laptop":     {"127.0.0.1:8085", false, doctor.OK},
		"half":       {"127.0.0.1:8085", true, doctor.Fail},
	} {
		p := unreachable()
		p.Emulator, p.RemoteDatabase = tc.emulator, tc.remote
		for message, level := range levels(t, p, "configuration") {
			require.Equal(t, tc.want, level, "%s: %s", name, message)
		}
	}
}

func TestDoctorJudgesRedis(t *testing.T) {
	t.Parallel()
	p := unreachable()
	p.Redelivery = 168 * time.Hour
	p.Redis = func(context.Context) (consume.ServerReport, error) { return consume.ServerReport{Version: "7.0"}, nil }
	require.Equal(t, map[string]doctor.Level{"Redis 7.0 stores the processed-event keys": doctor.OK}, levels(t, p, "redis"))
	p.IdempotencyTTL = time.Hour
	require.Equal(t, map[string]doctor.Level{"idempotency.ttl is 1h0m0s, but the broker may redeliver for 168h0m0s": doctor.Warn}, levels(t, p, "redis"))
}

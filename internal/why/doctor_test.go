package why_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// unreachable are the parameters of a doctor who finds no server at all.
func unreachable() doctor.Params {
	return doctor.Params{
		Registry: registry.New(), Now: time.Now, NeedsRedis: true, IdempotencyTTL: 720 * time.Hour,
		Database: func(context.Context) (*pgread.DB, error) {
			return nil, errors.New("connect to postgres://app:canary@db/x: refused")
		},
		Kind: broker.Kind{Name: "pubsub", Title: "Pub/Sub", Needs: []string{"pubsub.project"}, Remedy: "check pubsub.project", Rights: "roles/pubsub.viewer"},
		Broker: func(context.Context) (broker.Broker, []broker.PlannedTopic, error) {
			return nil, nil, errors.New("broker away")
		},
		Redis: func(context.Context) (consume.ServerReport, error) {
			return consume.ServerReport{}, errors.New("redis away")
		},
	}
}

// levels runs Doctor and returns what it found in one area, level by message.
func levels(t *testing.T, p doctor.Params, area string) map[string]doctor.Level {
	t.Helper()
	findings, err := doctor.Run(t.Context(), p)
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

// found is a broker of which a dry run found this. odd is what it says of subscriptions that keep the order.
type found struct {
	broker.Broker
	actions []broker.Action
	asked   *bool
	odd     []broker.Finding
}

func (f found) Ensure(_ context.Context, p broker.EnsureParams) ([]broker.Action, error) {
	if f.asked != nil {
		*f.asked = p.Ordered
	}
	return f.actions, broker.ErrIncomplete
}

func (f found) Findings(ordered bool) []broker.Finding {
	if !ordered {
		return nil
	}
	return f.odd
}

func TestDoctorJudgesTheBrokersResources(t *testing.T) {
	t.Parallel()
	p := unreachable()
	p.Broker = func(context.Context) (broker.Broker, []broker.PlannedTopic, error) {
		return found{actions: []broker.Action{
			{Kind: broker.KindTopic, Name: "a", Outcome: broker.OutcomeExists},
			{Kind: broker.KindTopic, Name: "b", Outcome: broker.OutcomeMissing},
			{Kind: broker.KindTopic, Name: "b2", Outcome: broker.OutcomeMissing},
			{Kind: broker.KindSubscription, Name: "c", Outcome: broker.OutcomeMissing},
			{Kind: broker.KindSubscription, Name: "d", Outcome: broker.OutcomeDiffers, Detail: "of another topic"},
			{Kind: broker.KindSubscription, Name: "e", Outcome: broker.OutcomeExists, Detail: "no dead-letter policy"},
			{Kind: broker.KindTopic, Name: "f", Outcome: broker.OutcomeFailed, Detail: "forbidden"},
		}}, nil, nil
	}
	require.Equal(t, map[string]doctor.Level{
		"topics b, b2 are missing":              doctor.Fail,
		"subscription c is missing":             doctor.Warn,
		"subscription d: of another topic":      doctor.Warn,
		"subscription e: no dead-letter policy": doctor.Warn,
		"topic f: forbidden":                    doctor.Fail,
		"2 topics and subscriptions exist":      doctor.OK,
	}, levels(t, p, "pubsub"))
	p.Broker = nil
	require.Equal(t, map[string]doctor.Level{"Pub/Sub is not configured": doctor.Warn}, levels(t, p, "pubsub"))
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
	p.Kind.Retention = 168 * time.Hour
	p.Redis = func(context.Context) (consume.ServerReport, error) { return consume.ServerReport{Version: "7.0"}, nil }
	require.Equal(t, map[string]doctor.Level{"Redis 7.0 stores the processed-event keys": doctor.OK}, levels(t, p, "redis"))
	p.IdempotencyTTL = time.Hour
	require.Equal(t, map[string]doctor.Level{"idempotency.ttl is 1h0m0s, but the broker may redeliver for 168h0m0s": doctor.Warn}, levels(t, p, "redis"))
}

// A login without rights is told of them once, not to migrate.
func TestDoctorNamesTheRightsThatAreMissing(t *testing.T) {
	b := setup(t)
	b.exec(fmt.Sprintf("CREATE ROLE lesser_%s", b.db.Name))
	pool := b.pool(func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("SET ROLE lesser_%s", b.db.Name))
			return err
		}
	})
	p := unreachable()
	p.Database = func(context.Context) (*pgread.DB, error) {
		return &pgread.DB{Pool: pool, Limits: pgread.Within(pgread.DefaultTimeout)}, nil
	}
	findings, err := doctor.Run(t.Context(), p)
	require.NoError(t, err)
	var denied []doctor.Finding
	for _, f := range findings {
		if strings.Contains(f.Message, "permission denied for table outbox_events") {
			denied = append(denied, f)
		}
	}
	require.Len(t, denied, 1)
	require.Contains(t, denied[0].Check, "event ids, ")
	require.Equal(t, "outboxctl migrate grants prints what each role needs", denied[0].Remedy)
}

// Several publishers that cannot reach one topic are one finding.
func TestDoctorNamesATopicOnce(t *testing.T) {
	b := setup(t)
	for range 2 {
		b.publisher(`{"topics": [{"topic": "domain", "state": "unreachable", "error": "away"}]}`, "1 second")
	}
	p := unreachable()
	p.Database = func(context.Context) (*pgread.DB, error) { return b.reads(), nil }
	found := levels(t, p, "publishers")
	require.Len(t, found, 2, found)
	require.Equal(t, doctor.Warn, found["topic domain has been unreachable for 1s at worker-7/4242, worker-7/4242: away"])
}

// Nothing that publishes needs Redis.
func TestDoctorDoesWithoutRedisWhereNothingNeedsIt(t *testing.T) {
	t.Parallel()
	p := unreachable()
	p.NeedsRedis = false
	require.Equal(t, map[string]doctor.Level{"no Redis is configured; only consumers need one": doctor.OK}, levels(t, p, "redis"))
}

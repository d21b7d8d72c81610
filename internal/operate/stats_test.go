package operate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// A dependency that is away, or that does not answer at all, is told beside the figures and delays them by its time-out
// only.
func TestStatsProbesTheDependencies(t *testing.T) {
	t.Parallel()
	box := operate.New(outboxtest.DB(t).Pool, registry.New())
	report, err := box.Stats(t.Context(), operate.StatsParams{MaxAttempts: 10, Probes: []operate.Probe{
		{Name: "redis", Run: func(context.Context) error { return nil }},
		{Name: "pubsub", Run: func(context.Context) error { return errors.New("dial\x1b[2J: refused") }},
		{Name: "silent", Run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	}})
	require.NoError(t, err)
	require.Zero(t, report.Backlog)
	require.Equal(t, "ok", report.Dependencies["redis"])
	require.Contains(t, report.Dependencies["pubsub"], "unreachable: dial")
	require.Contains(t, report.Dependencies["silent"], "no answer in time")
}

func TestFiguresWithoutASchemaHaveAHint(t *testing.T) {
	t.Parallel()
	box := operate.New(outboxtest.EmptyDB(t).Pool, registry.New())
	_, err := box.Stats(t.Context(), operate.StatsParams{MaxAttempts: 10})
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Precondition, kind)
	require.Contains(t, fault.HintOf(err), "outboxctl migrate")
	_, err = box.Check(t.Context(), operate.CheckParams{MaxAttempts: 10})
	require.Contains(t, fault.HintOf(err), "outboxctl migrate")
}

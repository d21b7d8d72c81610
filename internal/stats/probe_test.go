package stats_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// A dependency that is away, or that does not answer at all, is told beside the figures and delays them by its time-out
// only.
func TestStatsProbesTheDependencies(t *testing.T) {
	t.Parallel()
	report, err := stats.Collect(t.Context(), outboxtest.DB(t).Pool, registry.New(), stats.Params{MaxAttempts: 10, Probes: []stats.Probe{
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
	_, err := stats.Collect(t.Context(), outboxtest.EmptyDB(t).Pool, registry.New(), stats.Params{MaxAttempts: 10})
	kind, _ := fault.KindOf(fault.Database(err))
	require.Equal(t, fault.Precondition, kind)
	require.Contains(t, fault.HintOf(fault.Database(err)), "outboxctl migrate")
}

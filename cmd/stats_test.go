package cmd

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/stats"
)

func TestStatsInWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	lines := func(change func(*stats.Report)) string {
		r := &stats.Report{At: at, Flow: stats.Flow{State: stats.FlowNotShrinking}}
		change(r)
		var out bytes.Buffer
		sayStats(cli.NewApp(cli.Streams{Out: &out}, nil), &out, r)
		return out.String()
	}
	eta, cutoff := 90.0, at.Add(-2*time.Minute)
	for name, tc := range map[string]struct {
		change func(*stats.Report)
		want   string
	}{
		"not shrinking": {func(*stats.Report) {}, "0.0/s in, 0.0/s out: the backlog does not shrink\n"},
		"keeping up":    {func(r *stats.Report) { r.Flow.State = stats.FlowKeepingUp }, "out: keeping up\n"},
		"shrinking":     {func(r *stats.Report) { r.Flow = stats.Flow{State: stats.FlowShrinking, ETASeconds: &eta} }, "out: drained in about 1m30s\n"},
		"drained":       {func(r *stats.Report) { r.Flow = stats.Flow{State: stats.FlowDrained, ETASeconds: new(float64)} }, "out: drained\n"},
		"all counted":   {func(r *stats.Report) { r.Published.Last1h = 3 }, "published   0 in 1m, 0 in 5m, 3 in 1h\n"},
		"after a cleanup": {
			func(r *stats.Report) { r.Published.CountedSince = &cutoff },
			"published   0 in 1m, at least 0 in 5m, at least 0 in 1h  (a cleanup removed what was published before 2026-03-04T05:04:07Z)\n",
		},
		"topic away": {
			func(r *stats.Report) {
				r.Topics = []stats.TopicState{{Topic: "domain", State: "unreachable", Publisher: "one/11", Error: "refused\x1b[2J", Since: at.Add(-42 * time.Second)}}
			},
			"topic       domain has been unreachable for 42s at one/11: refused^[[2J\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, lines(tc.change), tc.want)
		})
	}
}

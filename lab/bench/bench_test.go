package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) {
	// Started by an import, for ever, by a library under the Google client.
	outboxtest.Main(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"),
		// Clocks of a NATS server that it starts for its process.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"))
}

// Every mode runs to its end and delivers exactly. What it costs here says nothing.
func TestEveryModeMeasures(t *testing.T) {
	t.Parallel()
	for _, mode := range Modes() {
		t.Run(mode.Name, func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			report, err := bench.Run(t.Context(), bench.Params{
				Mode: mode, Events: 300, Head: 700, Rate: 50, Duration: time.Second, Check: mode.Name != "catalogue", DatabaseURL: db.URL,
			})
			require.NoError(t, err)
			require.True(t, report.Delivery.Exact(), "%+v", report.Delivery)
			if mode.Name != "idle" && mode.Name != "emit" {
				require.Positive(t, report.EventsPerSecond)
				require.Positive(t, report.WALBytesPerEvent)
			}
			for _, other := range report.Compared {
				require.Positive(t, other.EventsPerSecond)
			}
			switch mode.Name {
			case "db-only", "row-by-row", "brokers":
				require.Empty(t, report.Checks)
				return
			case "idle":
				require.Zero(t, report.Events)
				require.Positive(t, report.QueriesPerSecond)
			case "pinned-xmin":
				require.Positive(t, report.Latency.Count)
			case "emit":
				require.Len(t, report.Extra.(*Emission).Ways, 18)
				require.Len(t, report.Checks, 12)
			case "ui":
				requirePage(t, report.Extra.(*Viewing))
			case "backlog":
				require.EqualValues(t, 700, report.Delivery.Expected)
			case "catalogue":
				require.Len(t, report.Compared, 3)
				for i, v := range append([]*bench.Report{report}, report.Compared...) {
					require.Equal(t, installations()[i].Name, v.Variant)
					require.Positive(t, v.EmitsPerSecond)
					require.True(t, v.Delivery.Exact(), "%+v", v.Delivery)
				}
				judgeCatalogues(report)
				require.Len(t, report.Checks, 7)
			}
			require.NotEmpty(t, report.Checks)
		})
	}
}

func requirePage(t *testing.T, v *Viewing) {
	t.Helper()
	require.Equal(t, 140, v.DeadLetters)
	require.Len(t, v.Pages, 23)
	for _, page := range v.Pages {
		require.Positive(t, page.Duration.P50, page.Address)
	}
	require.Equal(t, 204, v.Unchanged.Status)
	require.Positive(t, v.SnapshotSeconds)
	require.Positive(t, v.AloneEventsPerSecond)
}

package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/natstest"
)

func TestMain(m *testing.M) {
	// Started by an import, for ever, by a library under the Google client. The client's own handler of stream pings
	// notices the end of a stream at its next tick, up to ten seconds later.
	outboxtest.Main(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"),
		// Clocks of a NATS server that it starts for its process.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"))
}

// Every mode runs to its end, delivers exactly, and leaves no database behind. What
// it costs here says nothing: the figures are the command's business. One after the other: together
// they need more seconds on a busy machine than their servers are given for an answer.
func TestEveryModeMeasures(t *testing.T) {
	t.Parallel()
	for _, mode := range Modes() {
		t.Run(mode.Name, func(t *testing.T) {
			db := outboxtest.DB(t)
			report, err := Run(t.Context(), Params{Mode: mode, Events: 300, Rate: 50, Duration: time.Second, Check: true, DatabaseURL: db.URL})
			require.NoError(t, err)
			require.Equal(t, mode.Name, report.Mode)
			require.NotEmpty(t, report.Server)
			require.NotEmpty(t, report.Checks)
			require.True(t, report.Delivery.Exact(), "%+v", report.Delivery)
			require.Positive(t, report.EventsPerSecond)
			require.Positive(t, report.WALBytesPerEvent)
			if mode.Acks {
				require.Positive(t, report.Latency.Count)
			} else {
				require.EqualValues(t, 300, report.Delivery.Expected)
			}
			if c := report.Consume; c != nil {
				require.True(t, c.exact(300), "%+v", c)
				require.Positive(t, c.Handle.Count)
				require.Equal(t, "redis-server", c.Redis[:len("redis-server")])
				require.Positive(t, c.RedisRoundTrips)
				require.LessOrEqual(t, c.RedisRoundTrips, 2.0, "begin and done, shared by deliveries, and nothing else")
			}
			require.Equal(t, mode.Name == Consume().Name, report.Consume != nil)
			require.NotNil(t, report.Spent)
			require.Greater(t, report.Spent.Buffers, 1.0, "each event is a row that is written")
			require.Positive(t, report.Spent.Transactions)
			require.Positive(t, report.Spent.RoundTrips)
			var text strings.Builder
			require.NoError(t, report.WriteText(&text))
			require.Contains(t, text.String(), "arrived once, unchanged")
		})
	}
}

// Events arrive at every destination as they are stored, with and without keys.
func TestEveryDestination(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	client, err := nats.Connect(nats.Config{URL: s.ClientURL()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	for _, to := range []Destination{
		{Name: "nats", Open: func(context.Context) (broker.Broker, error) { return client, nil }}, {Name: "http"}, {Name: "exec"},
	} {
		for _, mode := range []Mode{Drain(), Ordered()} {
			t.Run(to.Name+" "+mode.Name, func(t *testing.T) {
				report, err := Run(t.Context(), Params{Mode: mode, Destination: to, Events: 200, DatabaseURL: outboxtest.DB(t).URL})
				require.NoError(t, err)
				require.Equal(t, to.Name, report.Broker)
				require.EqualValues(t, 200, report.Delivery.Arrived)
				require.Zero(t, report.Troubles)
			})
		}
	}
}

func TestRunDropsItsDatabase(t *testing.T) {
	t.Parallel()
	_, db := outboxtest.Postgres(t, devstack.PostgresParams{})
	_, err := Run(t.Context(), Params{Mode: Drain(), Events: 10, DatabaseURL: db.URL})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Run(ctx, Params{Mode: Drain(), Events: 10, DatabaseURL: db.URL, Progress: func(format string, _ ...any) {
		if format == "%s: draining" {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	var left int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_database WHERE datname LIKE 'outboxctl_bench%'`).Scan(&left))
	require.Zero(t, left)
}

func TestRunRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Params{
		"no such mode":        {Mode: Mode{Name: "sprint"}},
		"events must":         {Mode: Drain(), Events: -1},
		"payload must":        {PayloadBytes: maxPayloadBytes + 1},
		"publishers must":     {Publishers: 65},
		"rate must":           {Mode: Steady(), Rate: -1},
		"duration must":       {Mode: Steady(), Duration: time.Millisecond},
		"head, keys, workers": {Head: -1},
		"an executable":       {Processes: true},
		"to Pub/Sub alone":    {Destination: Destination{Name: "http"}, Processes: true, Executable: "x"},
		"from Pub/Sub alone":  {Destination: Destination{Name: "http"}, Mode: Consume()},
		"cannot use proc":     {Mode: Consume(), Processes: true, Executable: "x"},
	} {
		_, err := Run(t.Context(), p)
		var invalid *ParamError
		require.ErrorAs(t, err, &invalid, name)
		require.ErrorContains(t, err, name)
	}
	_, err := Run(t.Context(), Params{DatabaseURL: "postgres://nobody@127.0.0.1:1/none"})
	require.Error(t, err)
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	got, err := withDatabase("postgres://u:p@h:5/app?sslmode=disable", "scratch")
	require.NoError(t, err)
	require.Equal(t, "postgres://u:p@h:5/scratch?sslmode=disable", got)
	_, err = withDatabase("host=h dbname=app", "scratch")
	require.Error(t, err)
}

func TestEveryEffectMustBeThereOnce(t *testing.T) {
	t.Parallel()
	require.True(t, (&Consumption{Effects: 3, Inbox: 3, Marks: 3}).exact(3))
	for _, c := range []Consumption{
		{Effects: 2, Inbox: 3, Marks: 3},
		{Effects: 3, Inbox: 2, Marks: 3},
		{Effects: 3, Inbox: 3, Marks: 2},
		{Effects: 3, Inbox: 3, Marks: 3, Repeated: 1},
	} {
		require.False(t, c.exact(3), "%+v", c)
	}
}

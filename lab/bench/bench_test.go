package bench

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/rabbittest"
)

func TestMain(m *testing.M) {
	// The program is this one, under another name: see program.
	if filepath.Base(os.Args[0]) == "outboxctl" {
		os.Exit(cmd.Main(os.Args[1:], cli.OSStreams(), os.Environ()))
	}
	// Started by an import, for ever, by a library under the Google client.
	outboxtest.Main(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"),
		// Clocks of a NATS server that it starts for its process.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"))
}

func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "outboxctl")
	require.NoError(t, os.Symlink(self, path))
	return path
}

// Every mode runs to its end and delivers exactly. What it costs here says nothing. One after the
// other: together they need more seconds on a busy machine than their servers are given for an
// answer.
func TestEveryModeMeasures(t *testing.T) {
	t.Parallel()
	outboxctl := program(t)
	for _, mode := range Modes() {
		t.Run(mode.Name, func(t *testing.T) {
			p := Params{Mode: mode.Name, Program: outboxctl, Rounds: 1, Check: true, DatabaseURL: outboxtest.DB(t).URL,
				Sizes: Sizes{Events: 300, Head: 700, Rate: 50, Duration: time.Second}}
			if mode.Name == "idle" {
				p.DatabaseURL = ""
			}
			report, err := Run(t.Context(), p)
			require.NoError(t, err)
			require.NotEmpty(t, report.Server)
			for _, r := range append(report.Compared, report) {
				require.True(t, r.Delivery.Exact(), "%+v", r.Delivery)
				require.Zero(t, r.HeadDisturbed)
			}
			var text strings.Builder
			require.NoError(t, report.WriteText(&text))
			require.Contains(t, text.String(), mode.Name)
			if mode.Name == "brokers" {
				expected := len(Brokers())
				if !rabbittest.Installed() {
					expected--
				}
				require.Len(t, report.Compared, expected-1)
				require.Empty(t, report.Checks)
				return
			}
			require.NotEmpty(t, report.Checks)
			switch mode.Name {
			case "idle":
				require.Positive(t, report.QueriesPerSecond)
				return
			case "emit":
				require.Len(t, report.Extra.(*Emission).Ways, 10)
				require.Len(t, report.Checks, 6)
				return
			case "consume":
				require.True(t, report.Extra.(*Consumption).exact(300), "%+v", report.Extra)
				require.Positive(t, report.Extra.(*Consumption).Handle.Count)
				require.Positive(t, report.Extra.(*Consumption).RedisRoundTrips)
				require.Positive(t, report.Spent.ConsumerMicros)
				return
			case "ui":
				v := report.Extra.(*Viewing)
				require.Equal(t, 140, v.DeadLetters)
				for _, page := range v.Pages {
					require.Positive(t, page.Duration.P50, page.Address)
				}
				require.Equal(t, 204, v.Unchanged.Status)
				require.Positive(t, v.SnapshotSeconds)
				require.Positive(t, v.AloneEventsPerSecond)
			case "steady", "pinned-xmin":
				require.Positive(t, report.Latency.Count)
			}
			require.Positive(t, report.Delivery.Expected)
			require.Positive(t, report.EventsPerSecond)
			require.Positive(t, report.WALBytesPerEvent)
			require.Positive(t, report.Claim.Calls)
			require.Greater(t, report.Spent.Buffers, 1.0, "each event is a row that is written")
			require.Positive(t, report.Spent.PublisherMicros)
			require.InDelta(t, 1, report.WritesPerEvent, 1)
		})
	}
}

// Events arrive at every destination as they are stored, with keys too; a private server says what it
// took, and another program is measured in turn.
func TestEveryDestinationAndAnotherProgram(t *testing.T) {
	t.Parallel()
	for _, name := range []string{toNATS, "kafka", "http", toExec} {
		t.Run(name, func(t *testing.T) {
			report, err := Run(t.Context(), Params{Mode: "drain", Program: program(t), Broker: name, Keys: 50, Sizes: Sizes{Events: 200}, DatabaseURL: outboxtest.DB(t).URL})
			require.NoError(t, err)
			require.EqualValues(t, 200, report.Delivery.Arrived)
		})
	}
	var said strings.Builder
	report, err := Run(t.Context(), Params{Mode: "drain", Program: program(t), Against: program(t), Rounds: 1, Sizes: Sizes{Events: 200, Publishers: 2}, Log: &said})
	require.NoError(t, err)
	for _, r := range []*Report{report, report.Against} {
		require.EqualValues(t, 200, r.Delivery.Arrived)
		require.Positive(t, r.Spent.DatabaseMicros)
		require.Positive(t, r.Spent.RoundTrips)
	}
	require.NotEqual(t, report.Program, report.Against.Program)
	var text strings.Builder
	require.NoError(t, report.WriteText(&text))
	require.Regexp(t, `bytes of WAL +\S+ +\S+ +\d+\.\d{3}`, text.String())
}

func TestRunDropsItsDatabase(t *testing.T) {
	t.Parallel()
	_, db := outboxtest.Postgres(t, devstack.PostgresParams{})
	outboxctl := program(t)
	_, err := Run(t.Context(), Params{Mode: "drain", Program: outboxctl, Sizes: Sizes{Events: 10}, DatabaseURL: db.URL})
	require.NoError(t, err)
	// A program that ends at once is said to have.
	_, err = Run(t.Context(), Params{Mode: "drain", Program: outboxctl, Workers: 100_000, Sizes: Sizes{Events: 10}, DatabaseURL: db.URL})
	require.ErrorContains(t, err, "publish has ended: exit status 2")
	var left int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_database WHERE datname LIKE 'outboxctl_bench%'`).Scan(&left))
	require.Zero(t, left)
}

func TestRunRefusesNonsense(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Params{
		"no such mode":     {Mode: "sprint"},
		"events must":      {Sizes: Sizes{Events: -1}},
		"payload must":     {PayloadBytes: maxPayloadBytes + 1},
		"publishers must":  {Sizes: Sizes{Publishers: 65}},
		"rate must":        {Sizes: Sizes{Rate: -1}},
		"duration must":    {Sizes: Sizes{Duration: time.Millisecond}},
		"rounds must":      {Rounds: -1},
		"head, keys":       {Keys: -1},
		`broker "pigeon"`:  {Broker: "pigeon"},
		`program "absent"`: {Program: "absent"},
		`program "old"`:    {Against: "old"},
		"of its own":       {Mode: "idle", DatabaseURL: "postgres://nobody@127.0.0.1:1/none"},
	} {
		if p.Mode == "" {
			p.Mode = "drain"
		}
		if p.Program == "" {
			p.Program = os.Args[0]
		}
		_, err := Run(t.Context(), p)
		require.ErrorContains(t, err, name)
	}
	_, err := Run(t.Context(), Params{Mode: "drain", Program: os.Args[0], DatabaseURL: "postgres://nobody@127.0.0.1:1/none"})
	require.Error(t, err)
}

// A figure is worth what its verification is worth: each way to be wrong is seen.
func TestVerifySeesEveryFault(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		tamper   func(messages []message) []message
		unmarked bool
		want     Delivery
	}{
		{name: "exact", want: Delivery{Expected: 3, Arrived: 3}},
		{name: "missing", tamper: func(m []message) []message { return m[1:] }, want: Delivery{Expected: 3, Arrived: 2, Missing: 1}},
		{name: "doubled", tamper: func(m []message) []message { return append(m, m[0]) }, want: Delivery{Expected: 3, Arrived: 3, Duplicates: 1}},
		{name: "another body", tamper: func(m []message) []message { m[0].body = []byte(`{}`); return m }, want: Delivery{Expected: 3, Arrived: 3, Changed: 1}},
		{name: "another attribute", tamper: func(m []message) []message { m[0].attrs["created_at"] = "now"; return m },
			want: Delivery{Expected: 3, Arrived: 3, Changed: 1}},
		{name: "one attribute more", tamper: func(m []message) []message { m[0].attrs["x"] = "y"; return m },
			want: Delivery{Expected: 3, Arrived: 3, Changed: 1}},
		{name: "doubled, once changed", tamper: func(m []message) []message { return append([]message{{[]byte(`{}`), m[0].attrs}}, m...) },
			want: Delivery{Expected: 3, Arrived: 3, Duplicates: 1, Changed: 1}},
		{name: "an unknown event", tamper: func(m []message) []message {
			return append(m, message{attrs: map[string]string{"event_id": uuid.NewString()}})
		}, want: Delivery{Expected: 3, Arrived: 3, Unknown: 1}},
		{name: "no event id", tamper: func(m []message) []message { return append(m, message{}) }, want: Delivery{Expected: 3, Arrived: 3, Unknown: 1}},
		{name: "not marked", unmarked: true, want: Delivery{Expected: 3, Arrived: 3, Unsettled: 1}},
		{name: "out of order", tamper: func(m []message) []message { m[0], m[1] = m[1], m[0]; return m },
			want: Delivery{Expected: 3, Arrived: 3, Disordered: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			db := outboxtest.DB(t)
			trial := &Trial{pool: db.Pool, Params: Params{PayloadBytes: 400, Keys: 1, Log: io.Discard, types: []eventType{{name: "order_created"}}}, seen: newRecorder(3)}
			trial.emit(t.Context(), 3)
			seen := messagesOf(t, db)
			if tc.tamper != nil {
				seen = tc.tamper(seen)
			}
			marked := 3
			if tc.unmarked {
				marked = 2
			}
			_, err := db.Pool.Exec(t.Context(), `UPDATE outbox_events SET published_at = now() WHERE seq <= $1`, marked)
			require.NoError(t, err)
			trial.seen.record(seen...)
			got := trial.seen.verify(t.Context(), db.Pool)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.name == "exact", got.Exact())
		})
	}
}

func messagesOf(t *testing.T, db *outboxtest.Database) (messages []message) {
	t.Helper()
	rows, err := db.Pool.Query(t.Context(), `SELECT id::text, event_type::text, aggregate_type::text, aggregate_id::text, namespace, payload_json::text, created_at, seq FROM outbox_events ORDER BY seq`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var row wire.Row
		var body []byte
		require.NoError(t, rows.Scan(&row.ID, &row.EventType, &row.AggregateType, &row.AggregateID, &row.Namespace, &body, &row.CreatedAt, &row.Seq))
		messages = append(messages, message{body, wire.Attributes(row)})
	}
	require.NoError(t, rows.Err())
	return messages
}

func TestReportJudgesAndTakesTheBetterFigures(t *testing.T) {
	t.Parallel()
	r := &Report{}
	r.AtLeast("a", 2, 2)
	r.AtMost("b", 2, 2)
	require.True(t, r.Passed())
	r.AtMost("c", 2.1, 2)
	require.False(t, r.Passed())
	require.Equal(t, Check{Name: "c", Want: "≤ 2", Got: 2.1}, r.Checks[2])

	fast := &Report{Mode: "fast", EventsPerSecond: 20, WALBytesPerEvent: 500, Spent: &Spending{DatabaseMicros: 30, Buffers: 9}}
	slow := &Report{EventsPerSecond: 10, WALBytesPerEvent: 490, Spent: &Spending{DatabaseMicros: 40, Buffers: 8}}
	require.Equal(t, &Report{Mode: "fast", EventsPerSecond: 20, WALBytesPerEvent: 490, Spent: &Spending{DatabaseMicros: 30, Buffers: 8}}, slow.better(fast))
}

func TestMetricsAreSummedAndRead(t *testing.T) {
	t.Parallel()
	m := metrics{}
	m.read(`# HELP claims Time.
claims_bucket{result="ok",le="0.01"} 50
claims_bucket{result="ok",le="0.02"} 90
claims_bucket{result="ok",le="+Inf"} 100
claims_sum{result="ok"} 2
claims_count{result="ok"} 100
claims_count{result="a b"} 0
lost 3
`)
	require.InDelta(t, 3, m["lost"], 0)
	require.Equal(t, &Cost{Calls: 100, MicrosPerEvent: 10_000, Duration: Percentiles{Count: 100, P50: 10, P95: 20, P99: 20}}, m.cost("claims", 200))
	later := metrics{"lost": 5}
	require.Equal(t, metrics{"lost": 2}, later.since(metrics{"lost": 3}))
	require.Equal(t, Percentiles{Count: 3, P50: 2, P95: 3, P99: 3, Max: 3},
		percentilesOf([]time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}))
}

// Children count while they live and after they ended.
func TestFamilyTime(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says it")
	}
	before := familyTime(os.Getpid())
	child := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	require.NoError(t, child.Run())
	used := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	require.GreaterOrEqual(t, familyTime(os.Getpid())-before, used-2*clockTick)

	living := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	require.NoError(t, living.Start())
	ended, own := familyTime(os.Getpid()), processTime(living.Process.Pid)
	require.Eventually(t, func() bool { return familyTime(os.Getpid())-ended > 3*clockTick }, 30*time.Second, clockTick)
	require.Eventually(t, func() bool { return processTime(living.Process.Pid)-own > 3*clockTick }, 30*time.Second, clockTick)
	require.NoError(t, living.Process.Kill())
	require.Error(t, living.Wait())
}

func TestEveryEffectMustBeThereOnce(t *testing.T) {
	t.Parallel()
	require.True(t, (&Consumption{Effects: 3, Inbox: 3}).exact(3))
	for _, c := range []Consumption{{Effects: 2, Inbox: 3}, {Effects: 3, Inbox: 2}, {Effects: 3, Inbox: 3, Repeated: 1}} {
		require.False(t, c.exact(3), "%+v", c)
	}
}

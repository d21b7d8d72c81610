package cmd

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// traceCollector takes spans over HTTP.
type traceCollector struct {
	t   *testing.T
	url string
	mu  sync.Mutex
	got []*spans.Span
}

func newTraceCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := &collector.ExportTraceServiceRequest{}
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.keep(request)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *traceCollector) keep(request *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, from := range request.GetResourceSpans() {
		for _, scope := range from.GetScopeSpans() {
			c.got = append(c.got, scope.GetSpans()...)
		}
	}
}

// take returns the spans of that name and kind so far, and forgets all others.
func (c *traceCollector) take(name string, kind spans.Span_SpanKind) []*spans.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.got), func(s *spans.Span) bool { return s.GetName() != name || s.GetKind() != kind })
}

// runProcess runs a command as a process of its own, because OpenTelemetry reads the environment of one.
func runProcess(t *testing.T, env []string, code int, args ...string) (output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "outboxctl", args...)
	cmd.Env = env
	out, _ := cmd.CombinedOutput() // the code tells
	require.Equal(t, code, cmd.ProcessState.ExitCode(), "%v: %s", args, out)
	return string(out)
}

// untilDone runs a consumer again as long as it is not done: on a busy machine Redis may answer too late, and it ends with
// an event given back.
func untilDone(t *testing.T, run func(), done func() bool) {
	t.Helper()
	for range 9 {
		if run(); done() {
			return
		}
	}
	require.Fail(t, "the consumer is not done")
}

func spanText(s *spans.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if a.GetValue().GetStringValue() != "" {
				return a.GetValue().GetStringValue()
			}
			return fmt.Sprint(a.GetValue().GetIntValue())
		}
	}
	return ""
}

func traceIDs(links []*spans.Span_Link) (ids []string) {
	for _, l := range links {
		ids = append(ids, hex.EncodeToString(l.GetTraceId()))
	}
	slices.Sort(ids)
	return ids
}

// From who emits, in SQL or by the command, through publish to a service behind consume: what was sent is linked to who
// emitted it, what failed is in that trace, and the service is told where it belongs.
func TestTraces(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	c := newTraceCollector(t)
	w.ok("topic", "ensure")
	parent := func(n int) string { return fmt.Sprintf("00-%032x-%016x-01", n, n) }
	trace := func(n int) string { return fmt.Sprintf("%032x", n) }
	inSQL := func(traceparent, statement string) (id string) {
		tx, err := w.db.Pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT set_config('outboxctl.traceparent', $1, true)`, traceparent)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRow(t.Context(), statement, uuid.NewString()).Scan(&id))
		require.NoError(t, tx.Commit(t.Context()))
		return id
	}
	const one = `SELECT id FROM outbox_emit('license_status_changed', NULL, $1::text, '{}')`
	first := inSQL(parent(1), one)
	second := inSQL(parent(2), `SELECT id FROM outbox_emit_many(jsonb_build_array(jsonb_build_object(
		'event_type', 'license_status_changed', 'aggregate_id', $1::text, 'data', '{}'::jsonb, 'headers', '{"own": "x"}'::jsonb)))`)
	own := inSQL(parent(3), `SELECT id FROM outbox_emit('license_status_changed', NULL, $1::text, '{}', headers => '{"traceparent": "`+parent(4)+`"}')`)
	inSQL("nonsense", one)
	for id, want := range map[string]string{first: trace(1), second: trace(2), own: trace(4)} {
		require.Contains(t, w.ok("event", "show", id, "-o", "json"), `"traceId": "`+want+`"`)
	}
	poison := inSQL(parent(5), one)
	_, err := w.db.Pool.Exec(t.Context(), `UPDATE outbox_events SET attempt_count = 10, last_error = 'x' WHERE id = $1`, poison)
	require.NoError(t, err)

	env := append(slices.Clone(w.env), "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url)
	runProcess(t, env, 5, "publish", "--once", "--http-addr", "")
	sent := c.take("send domain", spans.Span_SPAN_KIND_CLIENT)
	require.Len(t, sent, 1)
	require.Equal(t, []string{trace(1), trace(2), trace(4)}, traceIDs(sent[0].GetLinks()))
	require.Equal(t, []string{"gcp_pubsub", "domain", "send", "send", "4"}, []string{
		spanText(sent[0], "messaging.system"), spanText(sent[0], "messaging.destination.name"), spanText(sent[0], "messaging.operation.name"),
		spanText(sent[0], "messaging.operation.type"), spanText(sent[0], "messaging.batch.message_count"),
	})
	died := c.take("send domain", spans.Span_SPAN_KIND_PRODUCER)
	require.Len(t, died, 1)
	require.Equal(t, []string{trace(5), fmt.Sprintf("%016x", 5), "dead", "max_attempts", poison}, []string{
		hex.EncodeToString(died[0].GetTraceId()), hex.EncodeToString(died[0].GetParentSpanId()), spanText(died[0], "outbox.outcome"),
		spanText(died[0], "error.type"), spanText(died[0], "messaging.message.id"),
	})

	for _, name := range []string{"mailer", "audit"} { // the second is sent a copy of what the first has
		joins := name == "audit"
		told := map[string]string{}
		var mu sync.Mutex
		service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			told[r.Header.Get("Idempotency-Key")] = r.Header.Get("Traceparent") + " " + r.Header.Get("Outbox-Traceparent") + r.Header.Get("Outbox-Googclient%5Ftraceparent")
		}))
		t.Cleanup(service.Close)
		args := []string{"consume", "--consumer", name, "--http", service.URL, "--count", "4", "--idle-exit", "30s", "--http-addr", ""}
		if joins {
			w.ok("topic", "ensure", "--subscription", "audit-sub")
			args = append(args, "--subscription", "audit-sub", "--trace-parent")
			w.ok("event", "republish", first, second, own, "--yes", "--note", "again")
			runProcess(t, w.env, 0, "publish", "--once", "--http-addr", "")
			args[6] = "3"
		}
		untilDone(t, func() { runProcess(t, env, 0, args...) }, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return told[first] != "" && told[second] != "" && told[own] != ""
		})
		var handled []*spans.Span
		for _, s := range c.got {
			if s.GetKind() == spans.Span_SPAN_KIND_CONSUMER && spanText(s, "messaging.consumer.group.name") == name {
				handled = append(handled, s)
			}
		}
		byEvent := map[string]*spans.Span{}
		for _, s := range handled {
			require.True(t, strings.HasPrefix(s.GetName(), "process "), s.GetName())
			byEvent[spanText(s, "messaging.message.id")] = s
		}
		for id, n := range map[string]int{first: 1, second: 2, own: 4} {
			s := byEvent[id]
			require.NotNil(t, s, "%s %s", name, id)
			here := hex.EncodeToString(s.GetTraceId())
			if joins {
				require.Equal(t, trace(n), here)
				require.Equal(t, fmt.Sprintf("%016x", n), hex.EncodeToString(s.GetParentSpanId()))
			} else {
				require.NotEqual(t, trace(n), here)
				require.Equal(t, []string{trace(n)}, traceIDs(s.GetLinks()))
			}
			require.Equal(t, "00-"+here+"-"+hex.EncodeToString(s.GetSpanId())+"-01 "+parent(n), told[id])
		}
	}
}

// A collector that is away, or a protocol that nobody speaks: the first stops nothing, the second is said at once.
func TestTracesThatNobodyTakes(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	w.ok("topic", "ensure")
	w.ok("emit", "--type", "license_status_changed", "--aggregate-id", uuid.NewString(), "--data", "{}")
	away := append(slices.Clone(w.env), "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	runProcess(t, away, 0, "publish", "--once", "--http-addr", "")
	require.Equal(t, 1, w.Count(`SELECT count(*) FROM outbox_events WHERE published_at IS NOT NULL`))
	said := runProcess(t, append(away, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"), 2, "publish", "--once", "--http-addr", "")
	require.Contains(t, said, `"http/json" is not http/protobuf or grpc`)
}

// grpcCollector takes spans over gRPC.
type grpcCollector struct {
	collector.UnimplementedTraceServiceServer
	*traceCollector
}

func (c grpcCollector) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.keep(request)
	return &collector.ExportTraceServiceResponse{}, nil
}

// A service and a command, traced over gRPC: both are handed the event's trace, and what was erased has none.
func TestTracesOverGRPC(t *testing.T) {
	t.Parallel()
	c := grpcCollector{traceCollector: &traceCollector{t: t}}
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	told := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header.Get("Traceparent") }))
	t.Cleanup(service.Close)
	dir := t.TempDir()
	web, hook := newEventWorld(t), newEventWorld(t)
	file := filepath.Join(dir, "outboxctl.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `contexts:
  web: {database: {url: %q}, broker: http, http: {url: %q}}
  hook: {database: {url: %q}, broker: exec, exec: {command: 'printf %%s "$TRACEPARENT" > %s/told'}}
`, web.db.URL, service.URL, hook.db.URL, dir), 0o600))
	parents := map[string]string{"web": "00-" + strings.Repeat("a", 32) + "-" + strings.Repeat("1", 16) + "-01", "hook": "00-" + strings.Repeat("b", 32) + "-" + strings.Repeat("2", 16) + "-01"}
	ids := map[string]string{}
	for name, w := range map[string]*eventWorld{"web": web, "hook": hook} {
		var id struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(w.ok("emit", "--type", "license_status_changed", "--aggregate-id", uuid.NewString(), "--data", "{}", "--header", "traceparent="+parents[name], "-o", "json")), &id))
		ids[name] = id.ID
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String()}
	for _, context := range []string{"web", "hook"} {
		runProcess(t, env, 0, "publish", "--config", file, "--context", context, "--once", "--http-addr", "")
	}
	require.Equal(t, parents["web"], <-told)
	said, err := os.ReadFile(filepath.Join(dir, "told"))
	require.NoError(t, err)
	require.Equal(t, parents["hook"], string(said))
	sent := map[string]string{}
	for _, s := range c.take("send domain", spans.Span_SPAN_KIND_CLIENT) {
		sent[spanText(s, "messaging.system")] = strings.Join(traceIDs(s.GetLinks()), " ")
	}
	require.Equal(t, map[string]string{"http": strings.Repeat("a", 32), "exec": strings.Repeat("b", 32)}, sent)

	require.Contains(t, web.ok("event", "show", ids["web"], "-o", "json"), `"traceId": "`+strings.Repeat("a", 32))
	web.ok("erase", ids["web"], "--yes", "--note", "asked for")
	require.NotContains(t, web.ok("event", "show", ids["web"], "-o", "json"), strings.Repeat("a", 32), "a trace leads to whoever emitted it")
}

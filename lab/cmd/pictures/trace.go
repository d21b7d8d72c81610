package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

//go:embed trace.py
var shop string

// span is what is drawn of one.
type span struct {
	Name         string
	TraceID      string
	SpanID       string
	ParentSpanID string
	Start        int64 `json:"startTimeUnixNano,string"`
	End          int64 `json:"endTimeUnixNano,string"`
	service      string
	links        []string
}

// spanCollector takes spans as outboxctl and as the shop send them.
type spanCollector struct {
	mu  sync.Mutex
	got []span
}

func (c *spanCollector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is cut off does not decode
	var list []span
	if r.Header.Get("Content-Type") == "application/json" {
		var sent struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if json.Unmarshal(body, &sent) == nil {
			list = sent.ResourceSpans[0].ScopeSpans[0].Spans
			list[0].service = "shop, in Python"
		}
	}
	request := &collector.ExportTraceServiceRequest{}
	if list == nil && proto.Unmarshal(body, request) == nil {
		for _, s := range request.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans() {
			drawn := span{Name: s.GetName(), TraceID: hex.EncodeToString(s.GetTraceId()), Start: int64(s.GetStartTimeUnixNano()), End: int64(s.GetEndTimeUnixNano()), service: "outboxctl publish"}
			for _, l := range s.GetLinks() {
				drawn.links = append(drawn.links, hex.EncodeToString(l.GetTraceId()))
			}
			list = append(list, drawn)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, list...)
}

func (c *spanCollector) spans() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(slices.Values(c.got), func(a, b span) int { return cmp.Compare(a.Start, b.Start) })
}

// drawTrace follows an event from a program in Python through publish to a service in Python.
func drawTrace(ctx context.Context, program, python, out string) {
	w := &rig.World{Dir: rig.StateDir("")}
	defer func() { _ = errors.Join(w.Close(), os.RemoveAll(w.Dir)) }()
	w.StartPostgres(ctx, devstack.PostgresParams{Dir: w.Dir})
	url := w.CreateDatabase(ctx, w.Postgres, "shop")
	c := &spanCollector{}
	server := httptest.NewServer(c)
	defer server.Close()
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = append(os.Environ(), "DATABASE_URL="+url, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=50")
		cmd.Stderr = os.Stderr
		return cmd
	}
	service := run(python, "-c", shop, "serve")
	port := rig.Must(service.StdoutPipe())
	rig.Check(service.Start())
	defer func() { _ = service.Process.Kill(); _ = service.Wait() }()
	number := strings.TrimSpace(rig.Must(bufio.NewReader(port).ReadString('\n')))
	rig.Check(run(program, "migrate").Run())
	publisher := run(program, "publish", "--http", "http://127.0.0.1:"+number+"/orders", "--http-addr", "")
	rig.Check(publisher.Start())
	defer func() { _ = publisher.Process.Signal(os.Interrupt); _ = publisher.Wait() }()
	db := rig.Must(pgx.Connect(ctx, url))
	defer func() { _ = db.Close(ctx) }()
	for alive := false; !alive && rig.Pause(ctx, 50*time.Millisecond); {
		rig.Check(db.QueryRow(ctx, `SELECT count(*) > 0 FROM outbox_publishers`).Scan(&alive))
	}
	rig.Check(run(python, "-c", shop, "emit").Run())
	for len(c.spans()) < 3 && rig.Pause(ctx, 50*time.Millisecond) {
	}
	rig.Check(os.WriteFile(out, drawSpans(c.spans()), 0o644))
}

// drawSpans draws a trace and what is linked to it, one line each.
func drawSpans(spans []span) []byte {
	const width, names, line = 860, 400, 34
	begin, end := spans[0].Start, spans[0].End
	for _, s := range spans {
		end = max(end, s.End)
	}
	x := func(at int64) float64 { return names + float64(at-begin)/float64(end-begin)*(width-names-90) }
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="A trace from Python through outboxctl publish to a service in Python">
<style>
text { font: 13px system-ui, sans-serif; fill: #d7dee6 } .q { fill: #8b97a3 } .m { font-family: ui-monospace, Menlo, Consolas, monospace }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#11161c"/>
<text x="18" y="28" class="q">trace <tspan class="m">%s</tspan></text>
`, width, 56+line*len(spans), spans[0].TraceID)
	for i, s := range spans {
		y, left, fill, note := 62+i*line, 18, "#56d364", ""
		if s.ParentSpanID != "" {
			left, fill = 34, "#76d9e6"
		}
		if s.TraceID != spans[0].TraceID {
			fill, note = "#e3b341", " · a trace of its own, linked"
			if !slices.Contains(s.links, spans[0].TraceID) {
				note = " · not linked"
			}
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s <tspan class="q">%s%s</tspan></text><rect x="%.1f" y="%d" width="%.1f" height="12" rx="3" fill="%s"/><text x="%.1f" y="%d" class="q">%.1f ms</text>`+"\n",
			left, y, s.Name, s.service, note, x(s.Start), y-10, max(3, x(s.End)-x(s.Start)), fill, x(s.End)+8, y, float64(s.End-s.Start)/1e6)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

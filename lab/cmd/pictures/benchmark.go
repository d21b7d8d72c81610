package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"text/template"

	"github.com/dustin/go-humanize"

	engine "github.com/outboxctl/outboxctl/internal/bench"
	modes "github.com/outboxctl/outboxctl/lab/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// drawBenchmark measures how fast a backlog gets to the broker with outboxctl, with a River worker
// that publishes one event per job, and with a row-by-row loop: in turns, on private PostgreSQL
// servers with the settings PostgreSQL ships with and on the same Pub/Sub fake. The better of their
// rounds counts.
func drawBenchmark(ctx context.Context, program string, events, rounds int, out string) {
	contenders := []*contender{
		{name: "outboxctl publish", measure: func() float64 { return drain(ctx, program, events) }},
		{name: "River worker", measure: func() float64 { return river(ctx, events) }},
		{name: "row by row", measure: func() float64 { // the loop most people write first
			return rig.Must(engine.Run(ctx, engine.Params{Mode: modes.RowByRow(), Events: events / 10})).EventsPerSecond
		}},
	}
	for round := range rounds {
		for _, c := range contenders {
			rate := c.measure()
			fmt.Fprintf(os.Stderr, "round %d  %-18s %8.0f events/s\n", round+1, c.name, rate)
			c.best = max(c.best, rate)
		}
	}
	rig.Check(os.WriteFile(out, draw(contenders, events), 0o644))
}

// A contender is one way of publishing a backlog.
type contender struct {
	name    string
	measure func() (eventsPerSecond float64)
	best    float64
}

// drain lets the program measure itself in a process of its own.
func drain(ctx context.Context, program string, events int) float64 {
	measured := exec.CommandContext(ctx, program, "bench", "--mode", "drain", "--events", strconv.Itoa(events), "-o", "json")
	measured.Stderr = os.Stderr
	var report engine.Report
	rig.Check(json.Unmarshal(rig.Must(measured.Output()), &report))
	return report.EventsPerSecond
}

const (
	width, bar, gap  = 720, 34, 18
	left, right, top = 160, 130, 52
)

// figure follows the reader's light or dark theme by itself.
const figure = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" role="img" aria-labelledby="t">
<title id="t">Events per second from a backlog to the broker:{{range .Bars}} {{.Name}} {{.Rate}}.{{end}}</title>
<style>
text { font: 15px system-ui, sans-serif; fill: #1f2328 } .dim { fill: #59636e; font-size: 13px }
.own { fill: #1a7f64 } .other { fill: #9aa4af }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .dim { fill: #9198a1 } .own { fill: #3fb98f } .other { fill: #656c76 } }
</style>
<text x="0" y="20">Events per second, from a backlog of {{.Events}} to the broker</text>
{{range .Bars}}<text x="0" y="{{.Text}}">{{.Name}}</text>
<rect class="{{.Class}}" x="{{$.Left}}" y="{{.Y}}" width="{{.Length}}" height="{{$.Bar}}" rx="3"/>
<text x="{{.End}}" y="{{.Text}}">{{.Rate}}</text>
{{end}}<text class="dim" x="0" y="{{.Foot}}">One publisher, two processors, PostgreSQL and the Pub/Sub fake on the same machine; made by: make pictures</text>
</svg>
`

type drawn struct {
	Name, Class, Rate    string
	Y, Text, Length, End int
}

func draw(contenders []*contender, events int) []byte {
	most := 0.0
	for _, c := range contenders {
		most = max(most, c.best)
	}
	bars := make([]drawn, len(contenders))
	for i, c := range contenders {
		length := max(2, int(c.best/most*float64(width-left-right)))
		y := top + i*(bar+gap)
		bars[i] = drawn{c.name, "other", humanize.Comma(int64(c.best)), y, y + bar*2/3, length,
			left + length + 10}
	}
	bars[0].Class = "own"
	height := top + len(bars)*(bar+gap) + 24
	var b bytes.Buffer
	rig.Check(template.Must(template.New("figure").Parse(figure)).Execute(&b, map[string]any{
		"Width": width, "Height": height, "Foot": height - 8, "Left": left, "Bar": bar, "Bars": bars, "Events": humanize.Comma(int64(events)),
	}))
	return b.Bytes()
}

package main

import (
	"bytes"
	"context"
	"os"
	"text/template"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/lab/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// drawBenchmark measures how fast a backlog gets to the broker with outboxctl, with a River worker
// that publishes one event per job, and with the loop that most people write first: in turns, on the
// same private PostgreSQL and Pub/Sub fake. The better of their rounds counts.
func drawBenchmark(ctx context.Context, program string, events, rounds int, out string) {
	report := rig.Must(bench.Run(ctx, bench.Params{
		Mode: "compared", Program: program, Sizes: bench.Sizes{Events: events}, Rounds: rounds, Log: os.Stderr,
	}))
	rig.Check(report.WriteText(os.Stderr))
	contenders := []contender{{"outboxctl publish", report.EventsPerSecond}}
	for _, other := range report.Compared {
		contenders = append(contenders, contender{other.Mode, other.EventsPerSecond})
	}
	rig.Check(os.WriteFile(out, draw(contenders, events), 0o644))
}

// A contender is one way of publishing a backlog.
type contender struct {
	name string
	best float64 // events per second
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

func draw(contenders []contender, events int) []byte {
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

package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/emit"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/demo"
	"github.com/outboxctl/outboxctl/internal/devstate"
)

const (
	demoReport        = 5 * time.Second
	sayOutboxPatience = 3 * time.Second
)

func (o *devOptions) runDemo(ctx context.Context, app *cli.App) error {
	pool, err := app.Pool(ctx)
	if err != nil {
		return err
	}
	types, err := app.Registry(ctx)
	if err != nil {
		return err
	}
	emitter := emit.New(types)
	emitter.Now = app.Now
	params := demo.Params{Seed: o.demoSeed, Rate: o.demoRate, Report: demoReport, Now: app.Now}
	report := func(r demo.Report) {
		fmt.Fprintln(app.Err, describeDemo(r))
		if ctx.Err() == nil { // the last word comes when the publisher has finished, too
			sayOutbox(ctx, app, o.info)
		}
	}
	return demo.New(params, pool, emitter, report).Run(ctx)
}

func describeDemo(r demo.Report) string {
	line := fmt.Sprintf("demo: %d events emitted, %d of them meant to fail", r.Total, r.Faulty)
	types := slices.Sorted(maps.Keys(r.ByType))
	slices.SortStableFunc(types, func(a, b string) int { return r.ByType[b] - r.ByType[a] })
	for i, name := range types {
		if i == 3 {
			line += fmt.Sprintf(", %d more types", len(types)-i)
			break
		}
		separator := ", "
		if i == 0 {
			separator = "; mostly "
		}
		line += fmt.Sprintf("%s%s %d", separator, name, r.ByType[name])
	}
	return line
}

// sayOutbox prints how the events are doing, or nothing when the database does not answer.
func sayOutbox(ctx context.Context, app *cli.App, info devstate.Info) {
	ctx, cancel := context.WithTimeout(ctx, sayOutboxPatience)
	defer cancel()
	if o, err := demo.ReadOutbox(ctx, info.DatabaseURL, info.StartedAt); err == nil {
		fmt.Fprintf(app.Err, "outbox: %d published since the start, %d waiting, %d dead letters open\n",
			o.Published, o.Waiting, o.Dead)
	}
}

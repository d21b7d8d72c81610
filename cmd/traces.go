package cmd

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/otlp"
)

// startTraces sends spans to where the variables of OpenTelemetry say, until the app is closed. It returns nil where they say
// nothing.
func startTraces(ctx context.Context, app *cli.App) (trace.TracerProvider, error) {
	log := app.Log()
	traces, err := otlp.Start(ctx, app.Build.Version, func(err error) {
		log.Warn().Err(err).Msg("spans were not taken")
	})
	if err != nil {
		return nil, fault.As(fault.Usage, err)
	}
	if traces == nil {
		return nil, nil
	}
	app.OnClose(traces.Close)
	return traces, nil
}

// tracedSystem is how OpenTelemetry calls a destination.
func tracedSystem(kind broker.Kind) string {
	if kind.Name == "pubsub" {
		return "gcp_pubsub"
	}
	return kind.Name
}

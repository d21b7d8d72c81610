// Package otlp sends spans to a collector, as the variables of OpenTelemetry say.
package otlp

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// lastSpans is how long a closing program waits until its last spans are sent.
const lastSpans = 5 * time.Second

// Traces sends spans to a collector.
type Traces struct{ *sdk.TracerProvider }

// Start sends spans to where the OTEL_ variables say. It returns nil where they name no endpoint, or switch traces off.
// onError is told why spans were not taken; that stops nothing else.
func Start(ctx context.Context, version string, onError func(error)) (*Traces, error) {
	endpoint := env("ENDPOINT")
	if endpoint == "" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	var client otlptrace.Client
	switch protocol := cmp.Or(env("PROTOCOL"), "http/protobuf"); protocol {
	case "http/protobuf":
		client = otlptracehttp.NewClient()
	case "grpc":
		client = otlptracegrpc.NewClient()
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not http/protobuf or grpc", protocol)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("send spans: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "outboxctl"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(onError))
	return &Traces{sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))}, nil
}

// env reads a variable of the exporter, that for traces first.
func env(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// Close sends what is left. That a collector does not take it is no failure of the program.
func (t *Traces) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := t.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
	return nil
}

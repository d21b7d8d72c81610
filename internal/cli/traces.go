package cli

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
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// lastSpans is how long a closing program waits until its last spans are sent.
const lastSpans = 5 * time.Second

// StartTraces sends spans to where the OTEL_ variables say, until the app is closed. It returns nil
// where they name no endpoint, or switch traces off. That a collector does not take spans is logged
// and stops nothing.
func (a *App) StartTraces(ctx context.Context) (trace.TracerProvider, error) {
	if otelEnv("ENDPOINT") == "" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	var client otlptrace.Client
	switch protocol := cmp.Or(otelEnv("PROTOCOL"), "http/protobuf"); protocol {
	case "http/protobuf":
		client = otlptracehttp.NewClient()
	case "grpc":
		client = otlptracegrpc.NewClient()
	default:
		return nil, fault.Usagef("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not http/protobuf or grpc", protocol)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fault.As(fault.Usage, fmt.Errorf("send spans: %w", err))
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "outboxctl"), attribute.String("service.version", a.Build.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fault.As(fault.Usage, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err))
	}
	log := a.Log()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn().Err(err).Msg("spans were not taken") }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	a.OnClose(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			otel.Handle(err)
		}
		return nil
	})
	return provider, nil
}

// otelEnv reads a variable of the exporter, that for traces first.
func otelEnv(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// Package traces has what the spans of sending and handling events have in common.
package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation's name.
const Scope = "github.com/outboxctl/outboxctl"

// Parent is the header that carries a span's context.
const Parent = "traceparent"

// Of is the context in an event's headers: that of who emitted it.
func Of(headers map[string]string) trace.SpanContext {
	if headers[Parent] == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(headers))
	return trace.SpanContextFromContext(ctx)
}

// Headers carry the context of the span in ctx on.
func Headers(ctx context.Context) map[string]string {
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	return headers
}

// Operation describes what is done with messages, by the conventions for messaging.
func Operation(system, destination, operation string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", system),
		attribute.String("messaging.destination.name", destination),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", operation),
	}
}

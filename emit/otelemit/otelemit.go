// Package otelemit lets events carry the trace of who emits them:
//
//	emitter := emit.New(types)
//	emitter.Headers = otelemit.Headers
//
// It is a module of its own, so that emit does not depend on OpenTelemetry.
package otelemit

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// Headers returns traceparent, and tracestate if there is one, of the span in ctx; nothing without
// a span.
func Headers(ctx context.Context) map[string]string {
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	return headers
}

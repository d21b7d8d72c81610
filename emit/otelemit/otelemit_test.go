package otelemit_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxctl/outboxctl/emit/otelemit"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	require.Empty(t, otelemit.Headers(context.Background()))
	state, err := trace.ParseTraceState("shop=1")
	require.NoError(t, err)
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state,
	})
	require.Equal(t, map[string]string{
		"traceparent": "00-01000000000000000000000000000000-0200000000000000-01", "tracestate": "shop=1",
	}, otelemit.Headers(trace.ContextWithSpanContext(t.Context(), span)))
}

package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/traces"
)

// maxLinks is how many events a span names: what OpenTelemetry keeps by default.
const maxLinks = 128

// Traces are the spans of a Dispatcher: one for each request, linked to the sampled events in it,
// and one for each event that fails or dies, in the trace of who emitted it. Events carry
// their trace in the headers traceparent and tracestate.
type Traces struct {
	// Provider may be nil: then there are no spans.
	Provider trace.TracerProvider
	// System is what the spans name as messaging.system, such as kafka.
	System string
}

func (t Traces) start(ctx context.Context, name string, about []attribute.KeyValue, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	about = slices.Concat(traces.Operation(t.System, name, "send"), about)
	return t.Provider.Tracer(traces.Scope).Start(ctx, "send "+name, append(opts, trace.WithAttributes(about...))...)
}

// publisher makes a span of each request of another.
func (t Traces) publisher(p dispatch.Publisher) dispatch.Publisher {
	if t.Provider == nil {
		return p
	}
	return tracedPublisher{p, t}
}

type tracedPublisher struct {
	dispatch.Publisher
	traces Traces
}

func (p tracedPublisher) Publish(ctx context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	var links []trace.Link
	for i := 0; i < len(msgs) && len(links) < maxLinks; i++ {
		if from := traces.Of(msgs[i].Attributes); from.IsSampled() {
			links = append(links, trace.Link{SpanContext: from})
		}
	}
	count := []attribute.KeyValue{attribute.Int("messaging.batch.message_count", len(msgs))}
	ctx, span := p.traces.start(ctx, topic, count, trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links...))
	defer span.End()
	results := p.Publisher.Publish(ctx, topic, msgs)
	var failed int
	for _, r := range results {
		if r.Err != nil {
			failed++
			span.SetAttributes(attribute.String("error.type", dispatch.CodeOf(r.Err)))
		}
	}
	if failed > 0 {
		span.SetStatus(codes.Error, fmt.Sprintf("%d of %d were not taken", failed, len(msgs)))
	}
	return results
}

// tracedFailures makes a span of each failure and each death.
type tracedFailures struct {
	dispatch.Observers
	traces Traces
}

func (f tracedFailures) Published(_ string, took time.Duration, attempts []dispatch.Attempt) {
	for i := range attempts {
		if a := &attempts[i]; a.Outcome == dispatch.OutcomeFailed || a.Outcome == dispatch.OutcomeDead {
			f.failed(a, took)
		}
	}
}

func (f tracedFailures) failed(a *dispatch.Attempt, took time.Duration) {
	var headers map[string]string
	_ = json.Unmarshal(a.Row.Headers, &headers) // without a trace of its own it begins one
	now, cause := time.Now(), dispatch.CodeOf(a.Err)
	about := []attribute.KeyValue{
		attribute.String("messaging.message.id", a.Row.ID), attribute.Int("outbox.attempt", a.Number),
		attribute.String("outbox.event_type", a.Row.EventType), attribute.String("outbox.outcome", a.Outcome.String()),
	}
	if a.Reason != "" {
		about, cause = append(about, attribute.String("outbox.reason", string(a.Reason))), string(a.Reason)
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), traces.Of(headers))
	_, span := f.traces.start(ctx, a.Topic, append(about, attribute.String("error.type", cause)),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(now.Add(-took)))
	span.SetStatus(codes.Error, a.Outcome.String())
	span.End(trace.WithTimestamp(now))
}

// Package traces makes OpenTelemetry's spans of what a consumer handles:
//
//	consume.NewRouter(guard, consume.RouterOptions{Wrap: traces.Handlers(provider, traces.Options{})})
//
// What a dispatcher sends is traced by dispatch.Config.Traces, and events get the trace of who
// emits them by the module emit/otelemit.
package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/traces"
)

// Options of Handlers.
type Options struct {
	// System is what the spans name as messaging.system, such as kafka.
	System string
	// Subscription is what events are received from, and Consumer who handles them.
	Subscription, Consumer string
	// Parent makes a span part of the trace of who emitted the event. Otherwise it begins a trace
	// of its own with a link to that one.
	Parent bool
}

// Handlers returns what makes a span of each call of a handler. The handler's context carries it.
func Handlers(provider trace.TracerProvider, o Options) func(consume.Handler) consume.Handler {
	tracer := provider.Tracer(traces.Scope)
	about := append(traces.Operation(o.System, o.Subscription, "process"),
		attribute.String("messaging.consumer.group.name", o.Consumer))
	return func(handler consume.Handler) consume.Handler {
		return func(ctx context.Context, e consume.Event) error {
			opts := []trace.SpanStartOption{
				trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(about...),
				trace.WithAttributes(attribute.String("messaging.message.id", e.ID.String()),
					attribute.String("outbox.event_type", e.Type), attribute.Int("outbox.attempt", e.Attempt)),
			}
			switch from := traces.Of(e.Attributes); {
			case from.IsValid() && o.Parent:
				ctx = trace.ContextWithRemoteSpanContext(ctx, from)
			case from.IsValid():
				opts = append(opts, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: from}))
			}
			ctx, span := tracer.Start(ctx, "process "+o.Subscription, opts...)
			defer span.End()
			err := handler(ctx, e)
			if err != nil {
				span.SetAttributes(attribute.String("error.type", "handler"))
				span.SetStatus(codes.Error, "the handler failed")
			}
			return err
		}
	}
}

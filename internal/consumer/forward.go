package consumer

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/forward"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/traces"
)

// PostTo hands events to an HTTP service, one request each: 2xx means done, 400 and 422 that no
// retry helps, anything else that the event should come again, after the time in Retry-After where
// the answer has one.
func PostTo(url string, connections int) consume.Handler {
	client := forward.NewClient(connections)
	return func(ctx context.Context, e consume.Event) error {
		answer, err := forward.Post(ctx, client, url, forwarded(ctx, e).Headers(), e.Body)
		text := answer.Text
		answer.Text = "" // it may repeat the payload, and this error is logged
		switch {
		case errors.As(err, new(*forward.HeaderError)):
			return consume.Malformed(err)
		case err != nil:
			return err
		case answer.OK():
			return nil
		case answer.Code == http.StatusBadRequest, answer.Code == http.StatusUnprocessableEntity:
			return consume.Malformed(&told{answer.Err(), text})
		case answer.Later:
			return errors.Join(&told{answer.Err(), text}, consume.RetryAfter(answer.RetryAfter))
		}
		return &told{answer.Err(), text}
	}
}

// told is an error with what a worker said, which is recorded and not logged.
type told struct {
	error
	text string
}

func (t *told) Unwrap() error { return t.error }

// errorText is what is recorded of a handler's error.
func errorText(err error) string {
	var t *told
	if errors.As(err, &t) && t.text != "" {
		return safetext.Stored(t.Error() + ": " + t.text)
	}
	return safetext.Stored(err.Error())
}

// forwarded is what a worker is told of an event. Its trace is that of the span in ctx, or the
// event's.
func forwarded(ctx context.Context, e consume.Event) forward.Event {
	trace := e.Attributes
	if here := traces.Headers(ctx); len(here) > 0 {
		trace = here
	}
	return forward.Event{
		ID: e.ID.String(), Type: e.Type, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Namespace: e.Namespace,
		TenantID: e.TenantID, DedupeKey: e.DedupeKey, CreatedAt: e.Attributes[consume.AttrCreatedAt], Attributes: e.Attributes,
		OrderingKey: e.OrderingKey, Attempt: e.Attempt, Trace: trace,
	}
}

// RunCommand hands events to a command of the shell, one process each: the body is its input, the
// attributes are in its environment. Exit code 0 means done, 65 that no retry helps, any other that
// the event should come again. What it prints goes to out.
func RunCommand(command, consumer string, out io.Writer) consume.Handler {
	return func(ctx context.Context, e consume.Event) error {
		err := forward.Run(ctx, command, append(forwarded(ctx, e).Env(), "OUTBOX_CONSUMER="+consumer), e.Body, out)
		var exit *forward.ExitError
		malformed := errors.As(err, new(*forward.NULError))
		if errors.As(err, &exit) {
			text := exit.Text
			exit.Text = "" // it was printed, and may repeat the payload
			err, malformed = &told{err, text}, exit.Code == forward.ExitMalformed
		}
		if malformed {
			return consume.Malformed(err)
		}
		return err
	}
}

package consume_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

// settled is a message that remembers how it was settled.
type settled struct{ acks, nacks int }

func (s *settled) Ack()  { s.acks++ }
func (s *settled) Nack() { s.nacks++ }

type ready struct {
	Door int `json:"door"`
}

func TestRouterSettlesByWhatTheHandlerSays(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	body := `{"version":1,"eventId":"019a8b5e-3c1a-7c44-9d0e-0f2f5a6b7c8d","occurredAt":"2026-01-01T00:00:00Z","data":{"door":7,"more":1}}`
	for _, tc := range []struct {
		name, eventType, id, body string
		handler                   func(consume.Event, ready) error
		outcome                   consume.Outcome
		err                       error
		ack                       bool
	}{
		{name: "processed", body: body, outcome: consume.Processed, ack: true, handler: func(e consume.Event, d ready) error {
			if d.Door != 7 || e.TenantID != "acme" || e.Seq != 42 || e.Type != "order.ready" || e.Attributes["trace"] != "t" {
				return fmt.Errorf("got %+v %+v", e, d)
			}
			return nil
		}},
		{name: "without an envelope", body: `{"door":7}`, outcome: consume.Processed, ack: true, handler: func(_ consume.Event, d ready) error {
			if d.Door != 7 {
				return fmt.Errorf("got %+v", d)
			}
			return nil
		}},
		{name: "failed", body: body, outcome: consume.Failed, err: away, handler: func(consume.Event, ready) error { return away }},
		{name: "malformed", body: body, outcome: consume.Invalid, err: consume.ErrMalformed, handler: func(consume.Event, ready) error { return consume.Malformed(away) }},
		{name: "other data", body: `{"door":"seven"}`, outcome: consume.Invalid, err: consume.ErrMalformed},
		{name: "no id", id: "x", outcome: consume.Invalid, err: consume.ErrMalformed},
		{name: "unknown type", eventType: "order.lost", outcome: consume.Ignored, ack: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := consume.NewRouter(guardOn(t, startRedis(t).client(t), consume.Options{}), consume.RouterOptions{Log: slog.New(slog.DiscardHandler)})
			consume.On(r, "order.ready", func(_ context.Context, e consume.Event, d ready) error { return tc.handler(e, d) })
			attributes := map[string]string{
				consume.AttrEventID: orElse(tc.id, uuid.NewString()), consume.AttrEventType: orElse(tc.eventType, "order.ready"), "tenant_id": "acme", "event_seq": "42", "trace": "t",
			}
			var msg settled
			outcome, err := r.Deliver(t.Context(), &msg, attributes, []byte(tc.body))
			require.Equal(t, tc.outcome, outcome, "%v", err)
			require.ErrorIs(t, err, tc.err)
			want := settled{nacks: 1}
			if tc.ack {
				want = settled{acks: 1}
			}
			require.Equal(t, want, msg)
			require.NotContains(t, fmt.Sprint(err), "seven", "no value in an error")
		})
	}
}

func orElse(value, other string) string {
	if value == "" {
		return other
	}
	return value
}

// A panic is one event's failure; its next delivery runs, and the one after that is a duplicate.
func TestRouterSurvivesAPanic(t *testing.T) {
	t.Parallel()
	r := consume.NewRouter(guardOn(t, startRedis(t).client(t), consume.Options{}), consume.RouterOptions{Log: slog.New(slog.DiscardHandler)})
	runs := 0
	r.Handle("order.ready", func(context.Context, consume.Event) error {
		if runs++; runs == 1 {
			panic("broken")
		}
		return nil
	})
	attributes := map[string]string{consume.AttrEventID: uuid.NewString(), consume.AttrEventType: "order.ready"}
	for _, want := range []consume.Outcome{consume.Failed, consume.Processed, consume.Duplicate} {
		outcome, err := r.Deliver(t.Context(), &settled{}, attributes, nil)
		require.Equal(t, want, outcome, "%v", err)
		var panicked *consume.PanicError
		require.Equal(t, want == consume.Failed, errors.As(err, &panicked))
	}
	require.Equal(t, 2, runs)
}

// A message that is to come later is held. The end of the worker does not wait for it.
func TestRouterHoldsAMessageThatIsToComeLater(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t).client(t)
	r := consume.NewRouter(guardOn(t, rdb, consume.Options{}), consume.RouterOptions{Log: slog.New(slog.DiscardHandler)})
	handled := make(chan struct{})
	r.Handle("order.ready", func(context.Context, consume.Event) error {
		close(handled)
		return consume.RetryAfter(time.Hour)
	})
	ctx, cancel := context.WithCancel(t.Context())
	id := uuid.New()
	attributes := map[string]string{consume.AttrEventID: id.String(), consume.AttrEventType: "order.ready"}
	held := heldUntil{ctx, make(chan bool, 1)}
	ended := make(chan consume.Outcome, 1)
	go func() {
		outcome, _ := r.Deliver(ctx, held, attributes, nil)
		ended <- outcome
	}()
	<-handled
	require.Eventually(t, func() bool { return stateOf(t, rdb, id) == consume.StateUnknown }, time.Minute, time.Millisecond, "the key is given back")
	cancel()
	require.True(t, <-held.ended, "given back before its time")
	require.Equal(t, consume.Failed, <-ended)
}

// heldUntil tells whether the context had ended when the message was given back.
type heldUntil struct {
	ctx   context.Context
	ended chan bool
}

func (heldUntil) Ack()    {}
func (h heldUntil) Nack() { h.ended <- h.ctx.Err() != nil }

func TestRouterUnknownTypes(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := consume.NewRouter(guardOn(t, startRedis(t).client(t), consume.Options{}), consume.RouterOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	refuse := consume.NewRouter(guardOn(t, startRedis(t).client(t), consume.Options{}), consume.RouterOptions{Unknown: consume.NackUnknown, Log: slog.New(slog.DiscardHandler)})
	for range 3 {
		attributes := map[string]string{consume.AttrEventID: uuid.NewString(), consume.AttrEventType: "order.lost"}
		var msg settled
		outcome, err := refuse.Deliver(t.Context(), &msg, attributes, nil)
		require.Equal(t, consume.Failed, outcome)
		require.ErrorContains(t, err, "order.lost")
		require.Equal(t, settled{nacks: 1}, msg)
		_, err = r.Deliver(t.Context(), &msg, attributes, nil)
		require.NoError(t, err)
	}
	require.Equal(t, 1, strings.Count(log.String(), "order.lost"), "said once")
}

func TestRouterTakesOneHandlerPerType(t *testing.T) {
	t.Parallel()
	r := consume.NewRouter(guardOn(t, startRedis(t).client(t), consume.Options{}), consume.RouterOptions{})
	r.Handle("order.ready", func(context.Context, consume.Event) error { return nil })
	require.Panics(t, func() { r.Handle("order.ready", func(context.Context, consume.Event) error { return nil }) })
	require.Panics(t, func() { r.Handle("order.lost", nil) })
	require.Panics(t, func() { r.HandleTx("order.lost", nil, nil) })
}

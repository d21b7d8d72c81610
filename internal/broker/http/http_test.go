package http_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	broker "github.com/outboxctl/outboxctl/internal/broker/http"
)

func message(id string) dispatch.Message {
	return dispatch.Message{
		EventID: id, EventType: "order created/x", AggregateType: "order", AggregateID: "7", Namespace: "shop", Attempt: 2,
		Data: []byte(`{"a": 1}`), Attributes: map[string]string{"event_id": id, "created_at": "2026-01-02T03:04:05Z", "traceparent": "00-ab"},
	}
}

// What an answer means, by brokers' table.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newPublisher(t, broker.Config{URL: "http://" + s.addr}, map[string]string{"orders": "orders"})
	for code, want := range map[int]dispatch.Class{
		500: dispatch.Retryable, 502: dispatch.Retryable, 503: dispatch.Retryable, 408: dispatch.Retryable, 425: dispatch.Retryable,
		429: dispatch.Retryable, 409: dispatch.Retryable, 418: dispatch.Retryable,
		404: dispatch.Misconfigured, 410: dispatch.Misconfigured, 401: dispatch.Misconfigured, 403: dispatch.Misconfigured,
		507: dispatch.Misconfigured, 301: dispatch.Misconfigured, 307: dispatch.Misconfigured,
		400: dispatch.Refused, 413: dispatch.Refused, 415: dispatch.Refused, 422: dispatch.Refused,
	} {
		s.set(func() {
			s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(code)
				_, _ = w.Write([]byte(strings.Repeat("why ", 1000)))
				return true
			}
		})
		err := publish(t.Context(), p, message("e"))
		require.Equal(t, want, dispatch.ClassOf(err), "%d: %v", code, err)
		require.ErrorContains(t, err, ": why why")
		require.Less(t, len(err.Error()), 700, "the beginning of the answer")
	}
	require.Empty(t, s.messages())
}

func TestNoAnswers(t *testing.T) {
	t.Parallel()
	s := start(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	secure := httptest.NewTLSServer(s)
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("half"))
		conn, _, _ := w.(http.Hijacker).Hijack()
		_ = conn.Close()
	}))
	t.Cleanup(cut.Close)
	for name, tc := range map[string]struct {
		url, code string
		class     dispatch.Class
	}{
		"away":                {"http://" + closed.Addr().String(), "connection", dispatch.Retryable},
		"unknown certificate": {secure.URL, "tls", dispatch.Misconfigured},
		"no TLS":              {"https://" + s.addr, "tls", dispatch.Misconfigured},
		"cut in the middle":   {cut.URL, "no_answer", dispatch.Retryable},
	} {
		p := newPublisher(t, broker.Config{URL: tc.url, Timeout: time.Minute}, map[string]string{"orders": "orders"})
		err := publish(t.Context(), p, message("e"))
		require.Equal(t, tc.class, dispatch.ClassOf(err), "%s: %v", name, err)
		require.Equal(t, tc.code, dispatch.CodeOf(err), "%s: %v", name, err)
	}
}

// A service that has an event and does not answer: that is about the event.
func TestNoAnswerInTime(t *testing.T) {
	t.Parallel()
	s := start(t)
	arrived := make(chan struct{}, 1)
	s.held = func(r *http.Request) {
		select {
		case arrived <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}
	p := newPublisher(t, broker.Config{URL: "http://" + s.addr, Timeout: 100 * time.Millisecond}, map[string]string{"orders": "orders"})
	for {
		err := publish(t.Context(), p, message("e"))
		require.Equal(t, dispatch.Retryable, dispatch.ClassOf(err), "%v", err)
		select {
		case <-arrived:
			require.Equal(t, "timeout", dispatch.CodeOf(err), "%v", err)
			return
		default: // on a busy machine not even the request got that far
		}
	}
}

// The request is what Standard Webhooks and CloudEvents say, signed with every secret.
func TestRequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	var path string
	s.answer = func(_ http.ResponseWriter, r *http.Request) bool { path = r.URL.EscapedPath(); return false }
	coded := base64.StdEncoding.EncodeToString([]byte("the newest"))
	p := newPublisher(t, broker.Config{
		URL: "http://" + s.addr + "/{namespace}/{topic}/{event_type}", Secrets: []string{"whsec_" + coded, "the old one"},
	}, map[string]string{"orders": "shop-orders"})
	require.NoError(t, publish(t.Context(), p, message("e-1")))
	require.Equal(t, "/shop/shop-orders/order%20created%2Fx", path)
	h := s.requests[0]
	for name, want := range map[string]string{
		"webhook-id": "e-1", "Idempotency-Key": "e-1", "ce-id": "e-1", "ce-type": "order%20created/x", "ce-source": "/outbox/shop",
		"ce-time": "2026-01-02T03:04:05Z", "Content-Type": "application/json", "outbox-event-id": "e-1", "outbox-attempt": "2",
		"traceparent": "00-ab", "outbox-traceparent": "00-ab",
	} {
		require.Equal(t, want, h.Get(name), name)
	}
	var signatures []string
	for _, key := range []string{"the newest", "the old one"} {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte("e-1." + h.Get("webhook-timestamp") + `.{"a": 1}`))
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	require.Equal(t, strings.Join(signatures, " "), h.Get("webhook-signature"))
}

// A topic may have a URL of its own; one without any is misconfigured.
func TestURLOfATopic(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newPublisher(t, broker.Config{}, map[string]string{"orders": "http://" + s.addr + "/x", "bills": "bills"})
	require.NoError(t, publish(t.Context(), p, message("e")))
	require.Len(t, s.messages(), 1)
	err := p.Publish(t.Context(), "bills", []dispatch.Message{message("e")})[0].Err
	require.Equal(t, dispatch.Misconfigured, dispatch.ClassOf(err))
	for url, ok := range map[string]bool{
		"http://h/{topic}?t={event_type}": true, "https://h": true, "ftp://h/": false, "h:80": false, "http://{topic}.h/": false, "http://h/{id}": false,
	} {
		require.Equal(t, ok, broker.CheckURL(url) == nil, url)
	}
}

// What the time was over for is not sent later.
func TestNothingIsSentLater(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newPublisher(t, broker.Config{URL: "http://" + s.addr, Parallel: 1}, map[string]string{"orders": "orders"})
	arrived := make(chan struct{}, 10)
	s.set(func() { s.held = func(r *http.Request) { arrived <- struct{}{}; <-r.Context().Done() } }) // it sees that it was cut off
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []dispatch.Result, 1)
	go func() { done <- p.Publish(ctx, "orders", []dispatch.Message{message("a"), message("b"), message("c")}) }()
	<-arrived
	cancel()
	<-done
	s.set(func() { s.held = nil })
	require.NoError(t, publish(t.Context(), p, message("d")))
	require.Len(t, s.messages(), 1, "what was cut off was not stored, and nothing behind it was sent")
}

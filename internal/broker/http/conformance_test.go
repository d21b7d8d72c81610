package http_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/emit/wire"
	broker "github.com/outboxctl/outboxctl/internal/broker/http"
)

// service stores what it is posted, unless it is told otherwise.
type service struct {
	t        *testing.T
	mu       sync.Mutex
	stored   []dispatch.Message
	requests []http.Header
	rejected map[string]bool
	answer   func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
	held     func(r *http.Request)
	addr     string
	server   *httptest.Server
}

func start(t *testing.T) *service {
	t.Helper()
	s := &service{t: t, rejected: map[string]bool{}}
	s.listen("127.0.0.1:0")
	t.Cleanup(func() { s.server.Close() })
	return s
}

func (s *service) listen(addr string) {
	listener, err := net.Listen("tcp", addr)
	require.NoError(s.t, err)
	s.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}}
	s.server.Start()
	s.addr = listener.Addr().String()
}

func (s *service) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *service) messages() []dispatch.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stored)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has given up
	}
	s.mu.Lock()
	held, answer := s.held, s.answer
	s.mu.Unlock()
	if held != nil {
		held(r)
	}
	if r.Context().Err() != nil || answer != nil && answer(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rejected[r.Header.Get("webhook-id")] {
		http.Error(w, "not this one", http.StatusUnprocessableEntity)
		return
	}
	s.requests = append(s.requests, r.Header)
	s.stored = append(s.stored, dispatch.Message{
		EventID: r.Header.Get("webhook-id"), Data: body, Attributes: attributes(s.t, r.Header),
		OrderingKey: decoded(s.t, r.Header.Get("outbox-ordering-key")),
	})
}

// attributes undoes what docs/destinations/http.md says of attributes.
func attributes(t *testing.T, h http.Header) map[string]string {
	attrs := map[string]string{}
	for name, values := range h {
		name, ours := strings.CutPrefix(strings.ToLower(name), "outbox-")
		if !ours || name == "ordering-key" || name == "attempt" {
			continue
		}
		if standard := strings.ReplaceAll(name, "-", "_"); wire.IsStandardAttribute(standard) {
			name = standard
		}
		attrs[decoded(t, name)] = decoded(t, values[0])
	}
	return attrs
}

func decoded(t *testing.T, text string) string {
	t.Helper()
	value, err := url.PathUnescape(text)
	require.NoError(t, err)
	return value
}

func newPublisher(t *testing.T, cfg broker.Config, topics map[string]string) dispatch.Publisher {
	t.Helper()
	client, err := broker.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client.NewPublisher(topics)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, func(t *testing.T) dispatchtest.Broker {
		s := start(t)
		status := func(code int) {
			s.set(func() {
				s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
					http.Error(w, "told to", code)
					return true
				}
			})
		}
		return dispatchtest.Broker{
			Publisher:    newPublisher(t, broker.Config{URL: "http://" + s.addr + "/{topic}/{event_type}"}, map[string]string{"orders": "shop"}),
			Topic:        "orders",
			MissingTopic: "missing",
			Stored:       s.messages,
			Fail: func(class dispatch.Class) {
				status(map[dispatch.Class]int{
					dispatch.Retryable: http.StatusServiceUnavailable, dispatch.Refused: http.StatusUnprocessableEntity,
					dispatch.Misconfigured: http.StatusForbidden,
				}[class])
			},
			Recover: func() { s.set(func() { s.answer = nil }) },
			Reject:  func(id string) { s.set(func() { s.rejected[id] = true }) },
			Away: func() func() {
				addr := s.addr
				s.server.CloseClientConnections()
				s.server.Close()
				return func() { s.listen(addr) }
			},
			Hold: func() (<-chan struct{}, func()) {
				arrived, gate := make(chan struct{}, 1), make(chan struct{})
				s.set(func() {
					s.held = func(*http.Request) {
						select {
						case arrived <- struct{}{}:
						default:
						}
						<-gate
					}
				})
				return arrived, sync.OnceFunc(func() { close(gate) })
			},
		}
	})
}

// publish offers one message and returns what became of it.
func publish(ctx context.Context, p dispatch.Publisher, m dispatch.Message) error {
	return p.Publish(ctx, "orders", []dispatch.Message{m})[0].Err
}

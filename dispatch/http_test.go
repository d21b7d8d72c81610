package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// webhook is a Publisher as a user would write one: it posts messages to an HTTP service that stores a request whole or
// not at all.
type webhook struct {
	url    string
	client *http.Client
}

const perRequest = 500

func (w webhook) Limits(string) wire.Limits {
	return wire.Limits{MessageBytes: 1 << 20, Attributes: 50, AttributeNameBytes: 100, AttributeValueBytes: 1000}
}

func (w webhook) Publish(ctx context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	send := func(ctx context.Context, msgs []dispatch.Message) []dispatch.Result { return w.post(ctx, topic, msgs) }
	if len(msgs) > 0 && msgs[0].OrderingKey != "" {
		return dispatch.InOrder(ctx, msgs, func(left []dispatch.Message) int { return min(len(left), perRequest) }, send)
	}
	var results []dispatch.Result
	for part := range slices.Chunk(msgs, perRequest) {
		results = append(results, dispatch.Isolate(ctx, part, send)...)
	}
	return results
}

func (w webhook) post(ctx context.Context, topic string, msgs []dispatch.Message) []dispatch.Result {
	results := make([]dispatch.Result, len(msgs))
	var ids []string
	body, err := json.Marshal(msgs)
	if err == nil {
		err = w.call(ctx, http.MethodPost, topic, body, &ids)
	}
	for i := range results {
		if results[i].Err = err; err == nil {
			results[i].MessageID = ids[i]
		}
	}
	return results
}

func (w webhook) Ready(ctx context.Context, topic string) error {
	return w.call(ctx, http.MethodGet, topic, nil, nil)
}

func (w webhook) call(ctx context.Context, method, topic string, body []byte, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, w.url+"/"+topic, bytes.NewReader(body))
	if err != nil {
		return dispatch.Pause(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return dispatch.NewFailure(dispatch.Retryable, "connection", err)
	}
	defer resp.Body.Close()
	code, err := strconv.Itoa(resp.StatusCode), fmt.Errorf("the service answered %s", resp.Status)
	switch {
	case resp.StatusCode == http.StatusOK && answer == nil:
		return nil
	case resp.StatusCode == http.StatusOK:
		return json.NewDecoder(resp.Body).Decode(answer)
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return dispatch.NewFailure(dispatch.Refused, code, err)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusForbidden:
		return dispatch.NewFailure(dispatch.Misconfigured, code, err)
	default:
		return dispatch.NewFailure(dispatch.Retryable, code, err)
	}
}

// service is the other side of it.
type service struct {
	memory
	status int
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	held, status := s.held, s.status
	s.mu.Unlock()
	if r.Method == http.MethodPost && held != nil {
		held()
	}
	var msgs []dispatch.Message
	switch {
	case strings.TrimPrefix(r.URL.Path, "/") != "orders":
		http.Error(w, "no such topic", http.StatusNotFound)
		return
	case r.Method == http.MethodGet:
		return
	case status != 0:
		http.Error(w, "told to", status)
		return
	case json.NewDecoder(r.Body).Decode(&msgs) != nil:
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, len(msgs))
	for i, m := range msgs {
		if s.rejected[m.EventID] {
			http.Error(w, "bad message", http.StatusUnprocessableEntity)
			return
		}
		ids[i] = strconv.Itoa(len(s.stored) + i)
	}
	s.stored = append(s.stored, msgs...)
	_ = json.NewEncoder(w).Encode(ids) // the client sees that it is cut off
}

func TestWebhookConformance(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, func(t *testing.T) dispatchtest.Broker {
		s := &service{memory: memory{rejected: map[string]bool{}}}
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		return dispatchtest.Broker{
			Publisher:    webhook{url: server.URL, client: server.Client()},
			Topic:        "orders",
			MissingTopic: "missing",
			Stored: func() []dispatch.Message {
				s.mu.Lock()
				defer s.mu.Unlock()
				return slices.Clone(s.stored)
			},
			Fail: func(class dispatch.Class) {
				s.set(func() {
					s.status = map[dispatch.Class]int{
						dispatch.Retryable: http.StatusServiceUnavailable, dispatch.Refused: http.StatusUnprocessableEntity,
						dispatch.Misconfigured: http.StatusForbidden,
					}[class]
				})
			},
			Recover: func() { s.set(func() { s.status = 0 }) },
			Reject:  func(id string) { s.set(func() { s.rejected[id] = true }) },
			Hold: func() (<-chan struct{}, func()) {
				arrived, gate := make(chan struct{}, 1), make(chan struct{})
				s.set(func() {
					s.held = func() {
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

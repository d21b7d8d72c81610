package rig

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// httpTimeout is how long a publisher waits for a service, half of what a call may take in torture.
const httpTimeout = 2 * time.Second

// httpFront is a service that events are posted to.
type httpFront struct {
	broker *Broker
	addr   string
	stored atomic.Int64

	mu     sync.Mutex
	server *http.Server
}

func startHTTPFront(b *Broker) Front {
	f := &httpFront{broker: b, addr: "127.0.0.1:0"}
	Check(f.Reconnect())
	return f
}

func (f *httpFront) Addr() string { return f.addr }

func (f *httpFront) Env(addr string) []string {
	return []string{
		"OUTBOXCTL_BROKER=http", "OUTBOXCTL_HTTP_URL=http://" + addr + "/{topic}", "OUTBOXCTL_HTTP_SECRET=torture",
		"OUTBOXCTL_HTTP_TIMEOUT=" + httpTimeout.String(),
	}
}

func (f *httpFront) Disconnect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.server.Close() // with the connections that it has
}

func (f *httpFront) Reconnect() error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", f.addr)
	if err != nil {
		return fmt.Errorf("listen as a service: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addr = listener.Addr().String()
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	f.server = server
	go func() { _ = server.Serve(listener) }() // until it is closed
	return nil
}

func (f *httpFront) Stop(context.Context) error {
	f.Disconnect()
	return nil
}

// ServeHTTP takes one event. An answer that is lost ends the connection.
func (f *httpFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // cut off on its way
	}
	m := &pubsubpb.PubsubMessage{Data: body, Attributes: map[string]string{}, OrderingKey: plain(r.Header.Get("outbox-ordering-key"))}
	for name, values := range r.Header {
		name, ours := strings.CutPrefix(strings.ToLower(name), "outbox-")
		if !ours || name == "ordering-key" || name == "attempt" {
			continue
		}
		if standard := strings.ReplaceAll(name, "-", "_"); wire.IsStandardAttribute(standard) {
			name = standard
		}
		m.Attributes[plain(name)] = plain(values[0])
	}
	replied := false
	f.broker.take(r.Context(), strings.TrimPrefix(r.URL.Path, "/"), m, func() (string, error) {
		return fmt.Sprint("m", f.stored.Add(1)), nil
	}, func(code codes.Code) error {
		replied = true
		w.WriteHeader(statusOf(code))
		return http.NewResponseController(w).Flush()
	})
	if !replied {
		panic(http.ErrAbortHandler)
	}
}

func plain(text string) string { return Must(url.PathUnescape(text)) }

// statusOf is how a service says what Pub/Sub says by a code.
func statusOf(code codes.Code) int {
	known := map[codes.Code]int{
		codes.OK: http.StatusNoContent, codes.InvalidArgument: http.StatusUnprocessableEntity, codes.Unavailable: http.StatusServiceUnavailable,
		codes.DeadlineExceeded: http.StatusGatewayTimeout, codes.Aborted: http.StatusConflict, codes.ResourceExhausted: http.StatusTooManyRequests,
		codes.NotFound: http.StatusNotFound, codes.PermissionDenied: http.StatusForbidden,
	}
	return cmp.Or(known[code], http.StatusInternalServerError)
}

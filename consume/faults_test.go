package consume_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

// lossyProxy forwards to Redis and, when armed, delivers the next request and
// then cuts the connection instead of passing the reply on.
type lossyProxy struct {
	listener net.Listener
	target   string
	armed    atomic.Bool
	lost     atomic.Int32
	conns    sync.WaitGroup
}

func startLossyProxy(t *testing.T, target string) *lossyProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &lossyProxy{listener: l, target: target}
	p.conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.conns.Wait() })
	return p
}

func (p *lossyProxy) serve(client net.Conn) {
	defer client.Close()
	upstream, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer upstream.Close()
	p.conns.Go(func() {
		_, _ = io.Copy(upstream, client)
		_ = upstream.Close()
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := upstream.Read(buf)
		if err != nil {
			return
		}
		if p.armed.CompareAndSwap(true, false) {
			p.lost.Add(1)
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *lossyProxy) url() string { return "redis://" + p.listener.Addr().String() + "/0" }

// The reply to each write is lost once; the client tries again and finds its
// own write. Taking that for a duplicate would acknowledge an event that
// no handler processed.
func TestLostReplyIsNotADuplicate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := startRedis(t)
	proxy := startLossyProxy(t, fmt.Sprintf("127.0.0.1:%d", srv.port))
	rdb, err := consume.NewClient(proxy.url())
	require.NoError(t, err)
	k := guardOn(t, rdb, consume.Options{})
	// Teach the server the scripts, so that the armed reply is the write's.
	_, err = k.Process(ctx, uuid.NewString(), func(context.Context) error { return nil })
	require.NoError(t, err)
	_, err = k.CheckAndMarkProcessed(ctx, uuid.Must(uuid.NewV7()), time.Hour)
	require.NoError(t, err)

	for range 20 {
		id := uuid.Must(uuid.NewV7())
		proxy.armed.Store(true)
		already, err := k.CheckAndMarkProcessed(ctx, id, time.Hour)
		require.NoError(t, err)
		require.False(t, already)

		id = uuid.Must(uuid.NewV7())
		proxy.armed.Store(true)
		claim, state, err := k.Begin(ctx, id)
		require.NoError(t, err)
		require.Equal(t, consume.StateUnknown, state)
		proxy.armed.Store(true)
		mark, err := claim.Done(ctx)
		require.NoError(t, err)
		require.Equal(t, consume.Marked, mark)
	}
	require.EqualValues(t, 60, proxy.lost.Load(), "every reply meant to be lost was")
}

func TestRedisAwayMeansNoRun(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	k := guardOn(t, srv.client(t), consume.Options{})
	id := uuid.Must(uuid.NewV7())
	srv.stop()

	outcome, err := k.Process(t.Context(), id.String(), func(context.Context) error {
		t.Error("handler ran unguarded")
		return nil
	})
	require.ErrorIs(t, err, consume.ErrUnavailable)
	require.Equal(t, consume.Unavailable, outcome)
	require.False(t, outcome.Ack())
	_, err = k.CheckAndMarkProcessed(t.Context(), id, time.Hour)
	require.ErrorIs(t, err, consume.ErrUnavailable)

	srv.start(t)
	outcome, err = k.Process(t.Context(), id.String(), func(context.Context) error { return nil })
	require.NoError(t, err, "the keeper recovers without being rebuilt, scripts and all")
	require.Equal(t, consume.Processed, outcome)
}

// Redis dies under a running handler: the effect has happened, so the message
// is finished with even though the mark could not be written.
func TestRedisLostUnderTheHandler(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	k := guardOn(t, srv.client(t), consume.Options{})
	outcome, err := k.Process(t.Context(), uuid.NewString(), func(context.Context) error {
		srv.stop()
		return nil
	})
	require.ErrorIs(t, err, consume.ErrUnavailable)
	require.Equal(t, consume.ProcessedUnmarked, outcome)
	require.True(t, outcome.Ack())
}

// Unheard of for a whole lease, a handler must assume that another has it.
func TestRedisAwayForALeaseStopsTheHandler(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	k := guardOn(t, srv.client(t), consume.Options{Lease: 200 * time.Millisecond})
	outcome, err := k.Process(t.Context(), uuid.NewString(), func(ctx context.Context) error {
		srv.stop()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, consume.ErrLeaseLost)
	require.Equal(t, consume.Failed, outcome)
}

// A server that accepts and never answers is noticed by the call's own
// deadline, not by the socket's.
func TestBlackHoleIsBoundedByTheDeadline(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	// The socket's own timer may be the first to notice, as with the second address.
	for query, timeout := range map[string]time.Duration{"": 50 * time.Millisecond, "?read_timeout=20ms": time.Hour} {
		rdb, err := consume.NewClient("redis://" + l.Addr().String() + query)
		require.NoError(t, err)
		k := guardOn(t, rdb, consume.Options{Timeout: timeout})
		err = k.Announce(t.Context())
		require.ErrorIs(t, err, consume.ErrUnavailable, query)
		require.ErrorIs(t, err, context.DeadlineExceeded, query)
		// The library would hide a deadline it ignored behind its own retries.
		require.True(t, rdb.Options().ContextTimeoutEnabled)
		require.Equal(t, 1, rdb.Options().DialerRetries)
	}
}

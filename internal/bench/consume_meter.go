package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// roundTrips counts what is asked of Redis about events. It is a redis.Hook.
type roundTrips struct{ count atomic.Int64 }

var _ redis.Hook = (*roundTrips)(nil)

// DialHook implements redis.Hook.
func (*roundTrips) DialHook(next redis.DialHook) redis.DialHook {
	return next
}

// ProcessHook implements redis.Hook. Connections greet, and a worker that starts
// asks whether the server is there and announces itself; that is not per event.
func (t *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch cmd.Name() {
		case "hello", "ping", "zadd":
		default:
			t.count.Add(1)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (t *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.count.Add(1)
		return next(ctx, cmds)
	}
}

// handling times events on their way through the worker.
type handling struct {
	mu    sync.Mutex
	begun map[uuid.UUID]time.Time
	hist  *hdrhistogram.Histogram
	last  time.Time
	// left are the events to be done with, after which end is called.
	left int
	end  func()
}

func newHandling(events int, end func()) *handling {
	return &handling{begun: map[uuid.UUID]time.Time{}, hist: NewHistogram(), left: events, end: end}
}

func (h *handling) begin(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun[id] = time.Now()
}

func (h *handling) done(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = time.Now()
	Record(h.hist, h.last.Sub(h.begun[id]))
	delete(h.begun, id)
	if h.left--; h.left == 0 {
		h.end()
	}
}

package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/wait"
)

const (
	settleRetryMin = 50 * time.Millisecond
	settleRetryMax = time.Second
	// settleRows bounds what one settle transaction carries.
	settleRows = 2000
	// settleFew is how many verdicts are few enough to wait, for settleGather and
	// beside a transaction that is under way, for others to share a transaction with.
	settleFew    = 500
	settleGather = 5 * time.Millisecond
)

// settlement is the verdicts on one group, and what to call when they are recorded.
type settlement struct {
	verdicts Verdicts
	done     func()
}

// settler records verdicts. What queues up while it is busy goes into the
// next transaction together, and few verdicts wait a moment beside another that is
// under way, so under load commits are shared and at rest nothing waits.
//
// It runs apart from claiming and publishing, on connections of its own: a
// slow broker or a long claim must never keep an acknowledged row from being
// marked, or its lease runs out and it is sent twice.
type settler struct {
	store   Store
	observe Observer
	timeout time.Duration
	// patience is how long a verdict is worth repeating; after the lease the
	// row belongs to another publisher.
	patience time.Duration
	turn     func(who string)

	mu     sync.Mutex
	queue  []settlement
	busy   int // transactions under way
	queued chan struct{}
}

func newSettler(cfg Config, store Store, observe Observer) *settler {
	return &settler{
		store: store, observe: observe, timeout: cfg.SettleTimeout, patience: cfg.Lease, turn: cfg.turn,
		queued: make(chan struct{}, 1),
	}
}

// submit queues a settlement. It never blocks: the in-flight limit bounds the queue.
func (s *settler) submit(st settlement) {
	s.mu.Lock()
	s.queue = append(s.queue, st)
	s.mu.Unlock()
	signal(s.queued)
}

// run settles until quit is closed. Several may run at once. abandon ends
// retries; it is not cancelled by the first stage of a shutdown. last ends
// everything.
func (s *settler) run(abandon, last context.Context, quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-s.queued:
		}
		s.turn("settle")
		for {
			if s.few() {
				_ = wait.For(last, settleGather) // what waits is settled in any case
			}
			batch := s.take()
			if len(batch) == 0 {
				break
			}
			var all Verdicts
			for _, st := range batch {
				all.add(st.verdicts)
			}
			s.settle(abandon, last, all)
			s.mu.Lock()
			s.busy--
			s.mu.Unlock()
			for _, st := range batch {
				st.done()
			}
		}
	}
}

// few reports whether it is better to wait for more.
func (s *settler) few() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := 0
	for _, st := range s.queue {
		rows += st.verdicts.Len()
	}
	return s.busy > 0 && rows > 0 && rows < settleFew
}

// take removes what fits into one transaction, and wakes another settler when
// it leaves something behind.
func (s *settler) take() []settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, n := 0, 0
	for n < len(s.queue) && (n == 0 || rows+s.queue[n].verdicts.Len() <= settleRows) {
		rows += s.queue[n].verdicts.Len()
		n++
	}
	if n == 0 {
		return nil
	}
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	s.busy++
	if len(s.queue) > 0 {
		signal(s.queued)
	}
	return batch
}

// settle records v, repeating it while the database is away. A verdict the
// database refuses is isolated, so that the others are recorded.
func (s *settler) settle(abandon, last context.Context, v Verdicts) {
	started := time.Now()
	repeated := false
	retry := wire.Backoff{Min: settleRetryMin, Max: settleRetryMax}
	for failed := 1; ; failed++ {
		ctx, cancel := context.WithTimeout(last, s.timeout)
		begun := time.Now()
		settled, err := s.store.Settle(ctx, v)
		cancel()
		report := SettleReport{Rows: v.Len(), Settled: settled, Took: time.Since(begun), Err: err}
		// After a lost reply the missing rows may be those the first try
		// settled, so they prove nothing about the lease.
		if err == nil && !repeated {
			report.Lost = v.Len() - settled.Len()
		}
		s.observe.Settled(report)
		if err == nil {
			return
		}
		if errors.Is(err, ErrRefused) && v.Len() > 1 {
			left, right := v.halves()
			s.settle(abandon, last, left)
			s.settle(abandon, last, right)
			return
		}
		if errors.Is(err, ErrRefused) || time.Since(started) > s.patience || wait.For(abandon, retry.Pause(failed)) != nil {
			s.observe.Trouble("settle", err)
			return
		}
		repeated = true
	}
}

// halves splits v into two parts with about as many rows each.
func (v Verdicts) halves() (left, right Verdicts) {
	half := v.Len() / 2
	i := min(len(v.Published), half)
	j := min(len(v.Failed), half-i)
	k := min(len(v.Dead), half-i-j)
	l := half - i - j - k
	left = Verdicts{v.Published[:i], v.Failed[:j], v.Dead[:k], v.Released[:l]}
	right = Verdicts{v.Published[i:], v.Failed[j:], v.Dead[k:], v.Released[l:]}
	return left, right
}

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// The channel and the advisory lock of migration 00012.
const (
	listenSQL = `LISTEN outbox_wake`
	armSQL    = `SELECT pg_try_advisory_lock(1870034018, 1)`
	disarmSQL = `SELECT pg_advisory_unlock(1870034018, 1)`
	pidSQL    = `SELECT pg_backend_pid()`
)

const (
	listenRetryMin = 500 * time.Millisecond
	listenRetryMax = 30 * time.Second
	// rearm is how often an idle listener tries again for a lock that another
	// idle publisher holds. That one's notifications reach this one too.
	rearm = 5 * time.Second
)

// ErrPooled means that the connection passes through a pooler, which keeps no
// session for us: LISTEN would be lost and the lock would stay behind.
var ErrPooled = errors.New("the connection goes through a pooler, which keeps no session: polling only")

// Listener is a Waker on PostgreSQL's LISTEN, on a connection of its own.
type Listener struct {
	connect func(context.Context) (*pgx.Conn, error)
	observe Observer
	hints   chan struct{}
	changed chan struct{}
	armed   atomic.Bool
}

// NewListener makes a listener; connect opens its connection, again after
// every loss.
func NewListener(connect func(context.Context) (*pgx.Conn, error), observe Observer) *Listener {
	return &Listener{connect: connect, observe: observe, hints: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// C implements Waker.
func (l *Listener) C() <-chan struct{} { return l.hints }

// Arm implements Waker.
func (l *Listener) Arm() { l.want(true) }

// Disarm implements Waker.
func (l *Listener) Disarm() { l.want(false) }

func (l *Listener) want(armed bool) {
	if l.armed.Swap(armed) != armed {
		signal(l.changed)
	}
}

// signal wakes the reader of a channel, unless it is to be woken already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run listens until ctx ends, or for good stops when it finds a pooler.
func (l *Listener) Run(ctx context.Context) {
	retry := wire.Backoff{Min: listenRetryMin, Max: listenRetryMax}
	for failed := 1; ctx.Err() == nil; failed++ {
		began := time.Now()
		err := l.session(ctx)
		if ctx.Err() != nil {
			return
		}
		l.observe.Trouble("listen for commits", err)
		if errors.Is(err, ErrPooled) {
			return
		}
		if time.Since(began) > listenRetryMax {
			failed = 1
		}
		_ = wait.For(ctx, retry.Pause(failed)) // the loop looks at ctx
	}
}

// session is the life of one connection. Closing it gives the lock back.
func (l *Listener) session(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	var pid uint32
	if err := conn.QueryRow(ctx, pidSQL).Scan(&pid); err != nil {
		return err
	}
	// A pooler answers the handshake with a process id of its own.
	if pid != conn.PgConn().PID() {
		return ErrPooled
	}
	if _, err := conn.Exec(ctx, listenSQL); err != nil {
		return err
	}
	held := false
	for {
		if held, err = l.adjust(ctx, conn, held); err != nil {
			return err
		}
		if err := l.wait(ctx, conn, held); err != nil {
			return err
		}
	}
}

// adjust takes or returns the lock that asks emitters to notify.
func (l *Listener) adjust(ctx context.Context, conn *pgx.Conn, held bool) (bool, error) {
	want := l.armed.Load()
	if want == held {
		return held, nil
	}
	query := disarmSQL
	if want {
		query = armSQL
	}
	var ok bool
	if err := conn.QueryRow(ctx, query).Scan(&ok); err != nil {
		return held, err
	}
	if want && ok {
		// Rows committed between the last look and this lock sent no notification.
		signal(l.hints)
	}
	return want && ok, nil
}

// wait returns at a notification, or when the lock is to be adjusted.
func (l *Listener) wait(ctx context.Context, conn *pgx.Conn, held bool) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var retry <-chan time.Time
	if l.armed.Load() && !held {
		retry = time.After(rearm)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		select {
		case <-l.changed:
		case <-retry:
		case <-waiting.Done():
		}
	}()
	_, err := conn.WaitForNotification(waiting)
	interrupted := waiting.Err() != nil
	cancel()
	<-watched
	switch {
	case err == nil:
		signal(l.hints)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case interrupted && !conn.IsClosed():
		return nil
	default:
		return fmt.Errorf("wait for a notification: %w", err)
	}
}

// Waker may tell the dispatcher that rows were committed before its poll
// interval is over. Nothing depends on it.
type Waker interface {
	// Arm asks for hints: the dispatcher is idle.
	Arm()
	// Disarm ends that: the dispatcher polls fast anyway, and emitters should
	// not pay for notifications.
	Disarm()
	// C receives the hints.
	C() <-chan struct{}
}

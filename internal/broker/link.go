package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed means that the client was closed.
var ErrClosed = errors.New("the client is closed")

// Link is a connection that is made by the first call that needs it, and again when it has ended.
// Callers at the same time share one attempt. Set the functions before the first call.
type Link[T any] struct {
	Dial func() (T, error)
	// Alive reports whether a connection can still be used, or will be by itself.
	Alive func(T) bool
	End   func(T) error

	mu      sync.Mutex
	conn    *T
	dialing chan struct{} // closed when the attempt under way has ended
	failed  error         // of the last attempt
	closed  bool
}

// Get returns the connection, and makes it where there is none. The attempt goes on when ctx ends.
func (l *Link[T]) Get(ctx context.Context) (conn T, err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return conn, ErrClosed
	}
	if l.conn != nil && l.Alive(*l.conn) {
		defer l.mu.Unlock()
		return *l.conn, nil
	}
	if l.dialing == nil {
		l.dialing = make(chan struct{})
		go l.dial(l.dialing)
	}
	done := l.dialing
	l.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return conn, fmt.Errorf("connect: %w", ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return conn, l.failed
	}
	return *l.conn, nil
}

func (l *Link[T]) dial(done chan struct{}) {
	conn, err := l.Dial()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.closed {
		_ = l.End(conn)
		err = ErrClosed
	}
	l.failed, l.dialing = err, nil
	if err == nil {
		l.conn = &conn
	}
	close(done)
}

// Now is the connection that there is, if there is one.
func (l *Link[T]) Now() (conn T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return conn, false
	}
	return *l.conn, true
}

// Close ends the connection, and waits for an attempt under way.
func (l *Link[T]) Close() error {
	l.mu.Lock()
	l.closed = true
	conn, dialing := l.conn, l.dialing
	l.mu.Unlock()
	if dialing != nil {
		<-dialing
	}
	if conn == nil || !l.Alive(*conn) {
		return nil
	}
	return l.End(*conn)
}

package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	loopback = "127.0.0.1"
	// startTimeout is how long a server may take to answer, recovery after a crash included.
	startTimeout = time.Minute
	// portAttempts bounds how often a start is tried again because the port was taken between our
	// look and the server's bind.
	portAttempts = 5
)

// server is what PostgreSQL and Redis have in common. It keeps its port over restarts.
type server struct {
	name string
	// wanted is the port to listen on; 0: any. any: another one will do when that is taken.
	wanted int
	any    bool
	run    func(ctx context.Context, port int) (process, error)
	// stop and kill are what Stop and Kill try before SIGKILL.
	stop, kill []endStep

	bound   int        // the port; 0 until the server runs, and written before others read it
	mu      sync.Mutex // of process: serialises what starts and ends it
	process process
}

// process is a child, or the Redis inside this process.
type process interface {
	end(ctx context.Context, steps ...endStep) error
	signal(sig os.Signal) error
	ended() <-chan struct{}
}

// start runs the server. Looking for a free port and binding it are two steps, and another process
// may take it in between (errPortTaken), so every attempt chooses again until the server has one.
func (s *server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		another := s.bound == 0 && (s.wanted == 0 || s.any)
		port := cmp.Or(s.bound, s.wanted)
		if another && (attempt > 1 || port == 0) {
			var err error
			if port, err = FreePort(); err != nil {
				return fmt.Errorf("start %s: %w", s.name, err)
			}
		}
		started, err := s.run(ctx, port)
		if err == nil {
			s.bound, s.process = port, started
			return nil
		}
		if !another || attempt == portAttempts || !errors.Is(err, errPortTaken) {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
	}
}

// Port is the port the server listens on; it stays the same over restarts.
func (s *server) Port() int { return s.bound }

// Done is closed when the server's present process has ended, for whatever reason. The in-process
// Redis has none: its channel is nil and never ready.
func (s *server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.ended()
}

// Stop ends the server.
func (s *server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.end(ctx, s.stop...)
}

// Kill ends the server as a crash would: every connection breaks.
func (s *server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.end(context.Background(), s.kill...)
}

// Restart crashes the server, unless it is down already, and starts it again on the same port.
func (s *server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.end(context.Background(), s.kill...); err != nil {
		return err
	}
	return s.start(ctx)
}

// FreePort returns a port of the loopback interface that is free at the moment.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

package devstack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const (
	redisStartTimeout = time.Minute
	redisStopPatience = 3 * time.Second
)

// RedisParams describes how to start a private Redis.
type RedisParams struct {
	// Dir is the state folder; the server works in its subfolder "redis". Nothing is kept over a
	// restart.
	Dir string
	// Port to listen on; 0 picks a free one. With AnyPort a free one also does when Port is taken.
	Port    int
	AnyPort bool
	// InProcess takes the in-process server even where redis-server is installed.
	InProcess bool
	// Settings are added to redis-server's command line; the in-process server has none.
	Settings map[string]string
	// Log receives a line for each surprising step. May be nil.
	Log io.Writer
}

// Redis is a running server that asks for a password: redis-server where it is installed, otherwise
// one inside this process that knows the commands outboxctl uses.
type Redis struct {
	// Kind names it, as in "redis-server 7.0.15" or "in-process".
	Kind string

	password string

	mu     sync.Mutex // serialises Stop, Kill, Restart and Pause
	server redisServer
}

// redisServer is what both kinds can do.
type redisServer interface {
	// start runs the server, on the port it had before if it had one.
	start(ctx context.Context) error
	// stop ends it; nothing of its data survives.
	stop(ctx context.Context) error
	pause() error
	resume() error
	port() int
	done() <-chan struct{}
}

// StartRedis starts a server and returns when it answers.
func StartRedis(ctx context.Context, params RedisParams) (*Redis, error) {
	if params.Log == nil {
		params.Log = io.Discard
	}
	password, choice := rand.Text(), portChoice{wanted: params.Port, any: params.AnyPort}
	path, err := exec.LookPath("redis-server")
	if params.InProcess || err != nil {
		server := &memoryRedis{choice: choice, password: password}
		if err := server.start(ctx); err != nil {
			return nil, err
		}
		return &Redis{Kind: "in-process", password: password, server: server}, nil
	}
	dir, err := filepath.Abs(params.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve state folder: %w", err)
	}
	server := &processRedis{path: path, stateDir: dir, log: params.Log, settings: params.Settings,
		choice: choice, password: password}
	if err := server.prepare(ctx); err != nil {
		return nil, err
	}
	if err := server.start(ctx); err != nil {
		return nil, err
	}
	return &Redis{Kind: "redis-server " + server.version, password: password, server: server}, nil
}

// URL returns the connection string of database 0, password included.
func (r *Redis) URL() string {
	return "redis://:" + r.password + "@" + address(r.server.port()) + "/0"
}

// Port is the port the server listens on; it stays the same over restarts.
func (r *Redis) Port() int { return r.server.port() }

// Done is closed when the server's present process has ended, for whatever reason. The in-process
// server has none: its channel is nil and never ready.
func (r *Redis) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server.done()
}

// Stop ends the server.
func (r *Redis) Stop(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server.stop(ctx)
}

// Kill ends the server without a goodbye, as a crash would.
func (r *Redis) Kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A context that is over leaves no patience for a clean end.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return r.server.stop(ctx)
}

// Restart kills the server, unless it is down already, and starts it empty on the same port.
func (r *Redis) Restart(ctx context.Context) error {
	if err := r.Kill(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server.start(ctx)
}

// Pause freezes the server: connections stay open and nothing answers. The in-process server cannot
// do it and returns errors.ErrUnsupported.
func (r *Redis) Pause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server.pause()
}

// Resume ends a Pause.
func (r *Redis) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server.resume()
}

var errNoPause = fmt.Errorf("pause the in-process Redis: %w", errors.ErrUnsupported)

// memoryRedis runs in this process.
type memoryRedis struct {
	choice   portChoice
	password string
	server   *miniredis.Miniredis // nil while stopped
}

func (m *memoryRedis) start(context.Context) error {
	return m.choice.start(func(port int) error {
		server := miniredis.NewMiniRedis()
		// Without it a TTL never runs out.
		server.ClockTTL(true)
		server.RequireAuth(m.password)
		if err := server.StartAddr(address(port)); err != nil {
			return fmt.Errorf("start the in-process Redis: %w: %w", errPortTaken, err)
		}
		m.server = server
		return nil
	})
}

func (m *memoryRedis) stop(context.Context) error {
	if m.server != nil {
		m.server.Close()
		m.server = nil
	}
	return nil
}

func (m *memoryRedis) pause() error  { return errNoPause }
func (m *memoryRedis) resume() error { return errNoPause }
func (m *memoryRedis) port() int     { return m.choice.bound }

func (m *memoryRedis) done() <-chan struct{} { return nil }

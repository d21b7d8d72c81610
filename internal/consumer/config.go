package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// Defaults of Config.
const (
	// DefaultConcurrency is how many events are handled at once. Each waits for
	// Redis and PostgreSQL most of the time, so it is far above the cores.
	DefaultConcurrency = 64

	// DefaultConnections to PostgreSQL. A commit waits for the disk, and commits
	// that wait together share one flush: fewer connections than this leave
	// throughput to the disk's latency.
	DefaultConnections = 32

	// DefaultStreams is how many streams receive from the service: one stream
	// carries 10 MB/s, a few more survive the loss of one.
	DefaultStreams = 4

	// EmulatorStreams is the same for Google's fake, which hands each stream at
	// most one message per 10 ms.
	EmulatorStreams = 64

	// DefaultHandlerTimeout bounds one event's handler.
	DefaultHandlerTimeout = 30 * time.Second

	// DefaultShutdownTimeout bounds how long a stopping worker waits for the
	// handlers under way.
	DefaultShutdownTimeout = 20 * time.Second

	// DefaultQuietAfter is how long a worker waits for its first message before
	// it logs what may be wrong.
	DefaultQuietAfter = 30 * time.Second

	// MaxStreams is how many streams one worker may receive with.
	MaxStreams = 1_000

	maxConcurrency = 10_000
)

// Config of a Worker.
type Config struct {
	// Concurrency is the number of events handled at once.
	Concurrency int
	// HandlerTimeout and ShutdownTimeout: see their defaults.
	HandlerTimeout, ShutdownTimeout time.Duration

	// Count ends Run after that many acknowledged messages, those of types without
	// a handler included; 0 means never.
	Count int64
	// IdleExit ends Run when no message arrived for that long; 0 means never.
	IdleExit time.Duration
	// QuietAfter: see its default.
	QuietAfter time.Duration

	// Handlers by event type. Any, unless it is nil, takes the types without one.
	Handlers map[string]Handler
	Any      Handler
	// Log may be the zero logger.
	Log zerolog.Logger
	// Hooks are called on the way of every event; tests crash in them.
	Hooks Hooks
}

// Hooks mark the windows in which a crash is interesting.
type Hooks struct {
	// AfterBegin: Redis holds the lease, nothing has happened yet.
	AfterBegin func(eventID uuid.UUID)
	// AfterEffect: effect and inbox row are committed, Redis says "processing".
	AfterEffect func(eventID uuid.UUID)
	// AfterDone: Redis says "done", the message is not acknowledged.
	AfterDone func(eventID uuid.UUID)
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Concurrency < 1 || c.Concurrency > maxConcurrency {
		errs = append(errs, fmt.Errorf("concurrency %d is not between 1 and %d", c.Concurrency, maxConcurrency))
	}
	if c.Count < 0 {
		errs = append(errs, fmt.Errorf("count %d is negative", c.Count))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"handler timeout", c.HandlerTimeout}, {"shutdown timeout", c.ShutdownTimeout}, {"idle exit", c.IdleExit}, {"quiet after", c.QuietAfter}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %s is negative", d.name, d.value))
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, DefaultHandlerTimeout)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, DefaultShutdownTimeout)
	c.QuietAfter = cmp.Or(c.QuietAfter, DefaultQuietAfter)
	for _, hook := range []*func(uuid.UUID){&c.Hooks.AfterBegin, &c.Hooks.AfterEffect, &c.Hooks.AfterDone} {
		if *hook == nil {
			*hook = func(uuid.UUID) {}
		}
	}
	return c
}

package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Defaults of Config.
const (
	DefaultBatchSize      = 50
	DefaultPollInterval   = 500 * time.Millisecond
	DefaultMaxAttempts    = 10
	DefaultLease          = 30 * time.Second
	DefaultPublishTimeout = 10 * time.Second
	// DefaultSettleTimeout is shorter where the lease leaves less.
	DefaultSettleTimeout    = 5 * time.Second
	DefaultBackoffBase      = time.Second
	DefaultBackoffMax       = 5 * time.Minute
	DefaultShutdownTimeout  = 20 * time.Second
	DefaultWorkers          = 2
	DefaultSettlers         = 2
	DefaultMaxInFlight      = 8000
	DefaultMaxInFlightBytes = 32 << 20
)

const (
	settleTimeoutMin = 100 * time.Millisecond
	// headersSlack is how much longer headers may be as JSON than as attributes.
	headersSlack = 1 << 20
	// claimTimeout bounds one claim and one look; claimSlow is when one that
	// fails is taken for a walk that was too long.
	claimTimeout = 10 * time.Second
	claimSlow    = time.Second
)

// Config tunes a Dispatcher. Zero values mean the default. What Tuning of the public package has
// too is explained there.
type Config struct {
	BatchSize    int
	PollInterval time.Duration
	MaxAttempts  int
	// Lease must outlast a publish and its settling, or a second publisher takes rows
	// that are still on their way.
	Lease          time.Duration
	PublishTimeout time.Duration
	// SettleTimeout bounds one settle transaction. By default it is half of
	// what the lease leaves after PublishTimeout, at most 5 s.
	SettleTimeout time.Duration
	Backoff       wire.Backoff // between attempts on one row
	Workers       int
	// Settlers is the number of settle transactions that run side by side.
	Settlers int
	// MaxInFlight and MaxInFlightBytes bound what is between claim and settle.
	MaxInFlight      int
	MaxInFlightBytes int64
	ShutdownTimeout  time.Duration
	// Once ends Run when nothing is left to claim. Rows that wait for their
	// next attempt, or whose topic is not taking anything, are not waited for.
	Once bool
	// Names lists the names under which the catalogue's events are stored, and Scope
	// is the store's, so that the rows of one topic can be left alone.
	Names outbox.Names
	Scope Scope
	// Authority may be nil: then the publisher may judge events of every type in its catalogue.
	Authority Authority
	// Paused returns what operators have paused; nil means nothing. It is asked with every claim.
	Paused func() []outbox.Pause
	// Random draws from [0, 1) and must be safe for concurrent use.
	Random func() float64

	// turn holds a goroutine that races others until it may go on. A simulation
	// sets it, to decide by its seed which goroutine comes first.
	turn func(who string)
}

func (c Config) withDefaults() Config {
	c.BatchSize = cmp.Or(c.BatchSize, DefaultBatchSize)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
	c.Workers = cmp.Or(c.Workers, DefaultWorkers)
	c.Settlers = cmp.Or(c.Settlers, DefaultSettlers)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, max(DefaultMaxInFlight, 8*c.BatchSize))
	c.MaxInFlightBytes = cmp.Or(c.MaxInFlightBytes, DefaultMaxInFlightBytes)
	c.PollInterval = cmp.Or(c.PollInterval, DefaultPollInterval)
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, DefaultPublishTimeout)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, min(max((c.Lease-c.PublishTimeout)/2, settleTimeoutMin), DefaultSettleTimeout))
	c.Backoff.Min = cmp.Or(c.Backoff.Min, DefaultBackoffBase)
	c.Backoff.Max = cmp.Or(c.Backoff.Max, DefaultBackoffMax)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, DefaultShutdownTimeout)
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Paused == nil {
		c.Paused = func() []outbox.Pause { return nil }
	}
	if c.Authority == nil {
		c.Authority = soleAuthority{}
	}
	if c.turn == nil {
		c.turn = func(string) {}
	}
	return c
}

// sendBy is how old a claim may be when its rows are sent. Later the lease
// could end before the broker's answer is settled.
func (c Config) sendBy() time.Duration { return c.Lease - c.PublishTimeout - c.SettleTimeout }

// lastSettle is the end of ShutdownTimeout that is kept for settling.
func (c Config) lastSettle() time.Duration { return min(c.SettleTimeout, c.ShutdownTimeout/4) }

// Validate reports every problem of the configuration at once, defaults
// applied.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(c.BatchSize < 1, "batch size must be at least 1, got %d", c.BatchSize)
	refuse(c.MaxAttempts < 1, "max attempts must be at least 1, got %d", c.MaxAttempts)
	refuse(c.Workers < 1, "workers must be at least 1, got %d", c.Workers)
	refuse(c.Settlers < 1, "settlers must be at least 1, got %d", c.Settlers)
	refuse(c.MaxInFlight < 1, "rows in flight must be at least 1, got %d", c.MaxInFlight)
	refuse(c.MaxInFlightBytes < 1, "bytes in flight must be at least 1, got %d", c.MaxInFlightBytes)
	refuse(c.PollInterval < time.Millisecond, "poll interval must be at least 1ms, got %v", c.PollInterval)
	refuse(c.PublishTimeout <= 0, "publish timeout must be positive, got %v", c.PublishTimeout)
	refuse(c.SettleTimeout <= 0, "settle timeout must be positive, got %v", c.SettleTimeout)
	refuse(c.ShutdownTimeout <= 0, "shutdown timeout must be positive, got %v", c.ShutdownTimeout)
	refuse(c.Backoff.Min <= 0, "backoff base must be positive, got %v", c.Backoff.Min)
	refuse(c.Backoff.Max < c.Backoff.Min, "backoff max %v is shorter than backoff base %v", c.Backoff.Max, c.Backoff.Min)
	refuse(c.PollInterval >= c.Lease,
		"poll interval %v must be shorter than lease %v: the rows of a publisher that has died would wait for a poll after their lease",
		c.PollInterval, c.Lease)
	refuse(c.Lease <= c.PublishTimeout+c.SettleTimeout,
		"lease %v must be longer than publish timeout %v plus %v for settling: a shorter one lets a second publisher send rows that are still on their way",
		c.Lease, c.PublishTimeout, c.SettleTimeout)
	return errors.Join(problems...)
}

package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/dispatch"
)

// Config is where a Dispatcher takes events from and who publishes them.
type Config struct {
	// URL is the database's. A server on another machine must prove who it is unless the URL chooses
	// an sslmode.
	URL string
	// Claims and Settles replace URL: two pools of yours, which stay yours to close. Two, because
	// settling must never wait for a connection that claims hold. They need Tuning.Workers + 2 and 3
	// connections, to a server that can be written to, with client_encoding UTF8 and datestyle ISO.
	Claims, Settles *pgxpool.Pool
	// Catalogue is what the program knows of event types. Nil means what is recorded in the database,
	// and follows it.
	Catalogue *catalogue.Catalogue
	// CatalogueName is what State and operators are told of Catalogue; empty means "program".
	CatalogueName string
	// Publisher takes the events.
	Publisher Publisher
	// NewPublisher replaces Publisher where it depends on the topics of the catalogue. It is called at
	// the start, and again when the catalogue of the database has changed.
	NewPublisher func(context.Context, *catalogue.Catalogue) (Publisher, error)
	// Namespace, TenantID and EventTypes limit the dispatcher to a part of the events; empty means
	// all. A type is published under its present and its former names.
	Namespace, TenantID string
	EventTypes          []string
	// PollOnly does without the connection that listens for commits.
	PollOnly bool
	Tuning   Tuning
	// Version is what operators are told of this program; empty means the name of its main package.
	Version string
	// Log may be nil. It never gets a payload. LogPublished raises the lines of published events from
	// debug to info.
	Log          *slog.Logger
	LogPublished bool
	// Metrics may be nil. Two dispatchers of one process need registerers with different labels, see
	// prometheus.WrapRegistererWith.
	Metrics prometheus.Registerer
	Traces  Traces
}

// Tuning of a Dispatcher. Zero values mean the default, which is also that of outboxctl publish.
type Tuning struct {
	// BatchSize is where batches start (50). They grow to 1000 by themselves while there is a backlog.
	BatchSize int
	// PollInterval is the wait between looks at an idle outbox (500ms). Commits wake it earlier.
	PollInterval time.Duration
	// MaxAttempts is the number of failed attempts after which an event dies (10).
	MaxAttempts int
	// Lease is how long a claimed event belongs to this dispatcher (30s): so long the events of one
	// that was killed wait.
	Lease time.Duration
	// PublishTimeout bounds one call of Publish (10s). Lease must be longer.
	PublishTimeout time.Duration
	// BackoffBase and BackoffMax bound the wait between attempts (1s, 5m).
	BackoffBase, BackoffMax time.Duration
	// Workers is the number of claims side by side under load (2).
	Workers int
	// MaxInFlight bounds the events between claim and settle (8000): so many may be handed over twice
	// after a kill.
	MaxInFlight int
	// ShutdownTimeout bounds how long Run waits for what is on its way when its context ends (20s).
	ShutdownTimeout time.Duration
}

func (t Tuning) internal() dispatch.Config {
	return dispatch.Config{
		BatchSize: t.BatchSize, PollInterval: t.PollInterval, MaxAttempts: t.MaxAttempts, Lease: t.Lease,
		PublishTimeout: t.PublishTimeout, Backoff: wire.Backoff{Min: t.BackoffBase, Max: t.BackoffMax},
		Workers: t.Workers, MaxInFlight: t.MaxInFlight, ShutdownTimeout: t.ShutdownTimeout,
	}
}

// Validate reports every problem at once, defaults applied.
func (t Tuning) Validate() error { return t.internal().Validate() }

// validate reports every problem at once.
func (c Config) validate() error {
	var problems []error
	pools := c.Claims != nil && c.Settles != nil && c.Claims != c.Settles
	switch {
	case c.URL != "" && (c.Claims != nil || c.Settles != nil):
		problems = append(problems, errors.New("give URL or two pools, not both"))
	case c.URL == "" && !pools:
		problems = append(problems, errors.New("give URL, or Claims and Settles: two different pools"))
	}
	if (c.Publisher == nil) == (c.NewPublisher == nil) {
		problems = append(problems, errors.New("give a Publisher or NewPublisher; Each makes one of a function"))
	}
	return errors.Join(append(problems, c.Tuning.Validate())...)
}

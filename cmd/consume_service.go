package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/traces"
)

// consumeService is a worker with everything around it.
type consumeService struct {
	cfg    *cli.Config
	log    zerolog.Logger
	guard  *consume.Guard
	worker *consumer.Worker
	broker broker.Broker
	source broker.Source
	server *processServer

	subscriptions []string
}

func newConsumeService(ctx context.Context, opts *consumeOptions, cfg *cli.Config) (*consumeService, error) {
	app := opts.app
	s := &consumeService{cfg: cfg, log: app.Log().With().Str("consumer", opts.name).Logger()}
	addr := cfg.Consume.HTTPAddr
	if opts.noHTTP {
		addr = ""
	}
	s.server = newProcessServer(app, s.log, addr)
	// A publisher on the same machine has the same default; neither should have to be told.
	s.server.elsewhere = cfg.Origin("consume.http_addr") == cli.OriginDefault
	pool, err := s.openExample(ctx, opts)
	if err != nil {
		return nil, err
	}
	if s.guard, err = s.openGuard(ctx, app, opts.name); err != nil {
		return nil, err
	}
	if s.broker, err = app.Broker(ctx); err != nil {
		return nil, err
	}
	if err := s.openSource(ctx, opts); err != nil {
		return nil, err
	}
	records, err := s.openRecords(ctx, app, pool)
	if err != nil {
		return nil, err
	}
	var wrap func(consume.Handler) consume.Handler
	if provider, err := app.StartTraces(ctx); err != nil {
		return nil, err
	} else if provider != nil {
		wrap = traces.Handlers(provider, traces.Options{
			System: app.BrokerKind().TracedAs(), Subscription: s.subscription(), Consumer: opts.name, Parent: opts.traceParent,
		})
	}
	s.worker = consumer.New(s.source, s.guard, consumer.Config{
		Concurrency: opts.concurrency, Count: opts.count, IdleExit: opts.idleExit, HandlerTimeout: opts.timeout, Metrics: s.server.registerer(), Log: s.log,
		Database: records, Subscription: s.subscription(), MaxAttempts: opts.maxAttempts, Wrap: wrap,
		Hooks: consumer.Hooks{
			AfterBegin: hit(failpoint.Begun), AfterEffect: hit(failpoint.Applied), AfterDone: hit(failpoint.Done),
		},
	})
	register(s.worker.Router, opts, pool)
	return s, nil
}

// openSource finds the subscriptions to receive from.
func (s *consumeService) openSource(ctx context.Context, opts *consumeOptions) (err error) {
	types := opts.types
	if opts.example {
		types = []string{notifications.EventType}
	}
	if s.subscriptions, err = opts.app.Subscriptions(ctx, s.broker, opts.topics, types); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ConnectTimeout)
	defer cancel()
	sources := make([]broker.Source, len(s.subscriptions))
	for i, name := range s.subscriptions {
		sources[i], err = s.broker.Source(ctx, broker.SourceParams{Subscription: name, Concurrency: opts.concurrency, Streams: opts.streams})
		if err != nil {
			return s.subscriptionError(err)
		}
	}
	if len(sources) == 0 {
		return s.subscriptionError(broker.ErrNoSource)
	}
	s.source = broker.Join(s.subscriptions, sources, opts.concurrency)
	if warning := s.source.About().Warning; warning != "" {
		s.log.Warn().Str("subscription", s.subscription()).Msg(warning)
	}
	return nil
}

// subscription names all of them.
func (s *consumeService) subscription() string { return strings.Join(s.subscriptions, ",") }

// openRecords returns the database that failures are recorded in, if there is one: the example's,
// or a small pool that connects when it is needed.
func (s *consumeService) openRecords(ctx context.Context, app *cli.App, pool *pgxpool.Pool) (consume.DB, error) {
	switch {
	case pool != nil:
		return pool, nil
	case s.cfg.Database.URL == "":
		s.log.Warn().Msg("database.url is not set: failures are not recorded")
		return nil, nil
	}
	// Two connections are enough for what fails.
	return app.LazyPool(ctx, s.cfg, cli.PoolParams{Name: "outboxctl consume", MaxConns: 2})
}

// register sets who gets the events. The pool is the example's.
func register(router *consume.Router, opts *consumeOptions, pool *pgxpool.Pool) {
	if opts.example {
		router.HandleBatch(notifications.EventType, pool, consume.BatchOptions{}, notifications.Write)
		return
	}
	handler := consumer.PostTo(opts.url, opts.concurrency)
	if opts.command != "" {
		handler = consumer.RunCommand(opts.command, opts.name, opts.app.Err)
	}
	if len(opts.types) == 0 {
		router.HandleOthers(handler)
	}
	for _, name := range opts.types {
		router.Handle(name, handler)
	}
}

// exampleTables fails to parse when a table or a column is missing, and reads nothing.
const exampleTables = `
SELECT i.consumer, i.event_id, n.id, n.type, n.audience, n.store_id, n.license_id, n.status, n.reason, n.message, n.event_id
  FROM inbox_events AS i, notifications AS n
 WHERE false`

// openExample opens the example's database, creates its own table and looks for the others. Other
// consumers have none: the pool is nil.
func (s *consumeService) openExample(ctx context.Context, opts *consumeOptions) (*pgxpool.Pool, error) {
	if !opts.example {
		return nil, nil
	}
	params := cli.PoolParams{Name: "outboxctl consume", MaxConns: consumer.DefaultConnections}
	pool, err := opts.app.OpenPool(ctx, s.cfg, params)
	if err != nil {
		return nil, err
	}
	if err := notifications.CreateTable(ctx, pool); err != nil {
		return nil, fault.Database(err)
	}
	if _, err := pool.Exec(ctx, exampleTables); err != nil {
		return nil, fault.Database(fmt.Errorf("check the consumer's tables: %w", err))
	}
	return pool, nil
}

// hit makes a failpoint of one of the worker's hooks.
func hit(point string) func(uuid.UUID) {
	return func(uuid.UUID) { failpoint.Hit(point) }
}

// openGuard builds the guard and looks at its server. One that is away is waited for later; one
// that cannot be used is an error now.
func (s *consumeService) openGuard(ctx context.Context, app *cli.App, name string) (*consume.Guard, error) {
	rdb, err := app.Redis()
	if err != nil {
		return nil, err
	}
	guard, err := consume.New(rdb, name, consume.Options{TTL: s.cfg.Idempotency.TTL})
	if err != nil {
		return nil, cli.ConfigProblems("idempotency.ttl: " + err.Error())
	}
	warnings, err := guard.Check(ctx)
	switch {
	case errors.Is(err, consume.ErrUnavailable):
		s.log.Warn().Err(err).Msg("redis is away; nothing is received until it answers")
	case err != nil:
		return nil, fault.Hint(fault.As(fault.Precondition, err), "outboxctl needs a writable Redis %s or later that runs scripts", consume.MinServerVersion)
	}
	for _, warning := range warnings {
		s.log.Warn().Msg(warning)
	}
	return guard, nil
}

// subscriptionError explains an error of a subscription: it is missing, or the broker is away.
func (s *consumeService) subscriptionError(err error) error {
	switch {
	case errors.Is(err, broker.ErrNoSource):
		return fault.Hint(fault.Usagef("consume: nothing can be received from %s", s.broker),
			"outboxctl publish hands each event to it; consume is for a broker that keeps messages")
	case errors.Is(err, broker.ErrNoSubscription):
		return fault.Hint(fault.As(fault.NotFound, err), "outboxctl topic ensure creates it")
	}
	return cli.BrokerError(s.broker, err)
}

// Run consumes until ctx ends or the worker has had enough, and answers meanwhile.
func (s *consumeService) Run(ctx context.Context) error {
	ready := []httpd.Check{
		{Name: "redis", Run: s.guard.Announce},
		{Name: "database", Run: s.worker.Router.PingDatabases},
		{Name: "receiving", Run: s.worker.Receiving},
	}
	alive := httpd.Check{Name: "handlers", Run: s.worker.Healthy}
	return s.server.around(ctx, alive, func() []httpd.Check { return ready }, s.consume)
}

func (s *consumeService) consume(ctx context.Context) error {
	s.log.Info().Str("subscription", s.subscription()).Msg("consuming")
	began := time.Now()
	report, err := s.worker.Run(ctx)
	s.log.Info().Int64("received", report.Received).Int64("processed", report.Processed).Int64("duplicates", report.Duplicates).
		Int64("ignored", report.Ignored).Int64("failed", report.Failed).Int64("malformed", report.Malformed).
		Dur("ran", time.Since(began)).Msg("stopped")
	if err != nil && s.source.Permanent(err) {
		return s.subscriptionError(err)
	}
	return err
}

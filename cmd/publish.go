package cmd

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/cli"
	engine "github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
	"github.com/outboxctl/outboxctl/internal/zlog"
)

type publishOptions struct {
	app *cli.App

	once              bool
	namespace, tenant string
	eventTypes        []string

	// traces is nil where nobody wants spans.
	traces trace.TracerProvider
}

func newPublishCmd(app *cli.App) *cobra.Command {
	opts := &publishOptions{app: app}
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Move committed events to the broker, a service or a command, until stopped",
		Long: `Claim committed events, publish them and mark them published, until stopped by a
signal. Any number of publishers may run at once: each row is leased to one of them. Only the
broker's acknowledgement marks an event as published; an event whose publisher dies is taken over
when its lease ends, so duplicates are possible and consumers must be idempotent.

SIGTERM or Ctrl-C stops claiming, waits for what is in flight, settles it and gives back what was
not sent; a second signal ends the process at once.

Events go to the broker that is configured (broker). --http posts each to a service instead, and
--exec runs a command for each: no broker is needed, and what fails is a dead letter with the answer
as its error.

An emulator that only a variable (PUBSUB_EMULATOR_HOST) or the configuration file names is refused
beside a database on another machine: give --emulator on the command line to use it.

With --once it ends when nothing is left to claim. Events that wait for their next attempt, or whose
topic takes nothing at the moment, are not waited for. The exit code is 5, with the counts, when
events died, when a topic takes nothing, or when events stay leased because the reply to a claim was
lost.`,
		Example: `  outboxctl publish
  outboxctl publish --once
  outboxctl publish --event-type payment_settled --event-type cash_collected
  outboxctl publish --http 'http://app:8000/outbox/{event_type}'
  outboxctl publish --exec 'python3 handler.py'
  outboxctl publish --http-addr 127.0.0.1:0 --log-level debug`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPublish(cmd.Context(), opts) },
	}
	cmd.Flags().BoolVar(&opts.once, "once", false, "publish what is due and exit")
	cmd.Flags().StringVar(&opts.namespace, "namespace", "", "publish only this namespace")
	cmd.Flags().StringVar(&opts.tenant, "tenant", "", "publish only this tenant (a UUID)")
	cmd.Flags().StringSliceVar(&opts.eventTypes, "event-type", nil, "publish only these event types, stored under their present or a former name (repeatable)")
	app.AddConfigFlags(cmd, cli.GroupPublish)
	return cmd
}

func (opts *publishOptions) parse() error {
	if err := opts.app.RefuseEmpty("namespace", "tenant", "event-type"); err != nil {
		return err
	}
	if opts.tenant != "" {
		id, err := outbox.ParseTenant(opts.tenant)
		if err != nil {
			return err
		}
		opts.tenant = id.String()
	}
	return nil
}

// checkTypes refuses event types that the catalogue does not have.
func (opts *publishOptions) checkTypes(ctx context.Context) error {
	if len(opts.eventTypes) == 0 {
		return nil
	}
	types, err := opts.app.Registry(ctx)
	if err != nil {
		return err
	}
	known := types.EventTypes()
	for _, t := range opts.eventTypes {
		if !slices.Contains(known, t) {
			return fault.Hint(fault.Usagef("--event-type: %q is not in the registry", t), "known types: %s", strings.Join(known, ", "))
		}
	}
	return nil
}

// publishMemory is what the runtime is asked to stay below. Four times what may be in flight: a row
// is held as it was read and as it is sent, and without a limit the heap grows to twice of that
// before it is collected.
const publishMemory = 4 * engine.DefaultMaxInFlightBytes

// publishGarbage lets small events have a fifth less garbage than Go's 100 would; less still costs
// processor time.
const publishGarbage = 80

// limitMemory sets both, unless the operator has chosen.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(publishMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(publishGarbage)
	}
}

func runPublish(ctx context.Context, opts *publishOptions) error {
	if err := opts.parse(); err != nil {
		return err
	}
	var err error
	if opts.traces, err = opts.app.StartTraces(ctx); err != nil {
		return err
	}
	if err := opts.checkTypes(ctx); err != nil {
		return err
	}
	cfg, err := publishConfig(opts.app)
	if err != nil {
		return err
	}
	limitMemory()
	server := newPublishServer(opts.app, cfg, opts.once)
	service, err := newPublishService(ctx, opts, cfg, server.registerer())
	if err != nil {
		return err
	}
	return server.around(ctx, httpd.Check{Name: "loop", Run: service.Alive}, service.checks, service.Run)
}

// publishConfig is the configuration of a publisher, or everything that is wrong with it.
func publishConfig(app *cli.App) (*cli.Config, error) {
	cfg, err := app.BrokerConfig("database.url")
	if err != nil {
		return nil, err
	}
	if err := cfg.Publish.Validate(); err != nil {
		return nil, cli.ConfigProblems(strings.Split(err.Error(), "\n")...)
	}
	return cfg, app.RefuseStrayEmulator()
}

// parkedTimeout bounds the look at parked events at the end of a run with --once.
const parkedTimeout = 5 * time.Second

// publishService is a dispatcher with what the command has around it: pools and broker.
type publishService struct {
	*dispatch.Dispatcher
	app    *cli.App
	cfg    *cli.Config
	once   bool
	log    zerolog.Logger
	claims *pgxpool.Pool
}

// newPublishService opens what is closed with the app. Nothing is measured where metrics is nil.
func newPublishService(ctx context.Context, opts *publishOptions, cfg *cli.Config, metrics prometheus.Registerer) (*publishService, error) {
	app, p := opts.app, cfg.Publish
	s := &publishService{app: app, cfg: cfg, once: opts.once, log: app.Log()}
	config := dispatch.Config{
		Namespace: opts.namespace, TenantID: opts.tenant, EventTypes: opts.eventTypes,
		NewPublisher: s.publisher, PollOnly: p.Wake != "auto", Version: app.Build.Version,
		Log: zlog.Slog(s.log), LogPublished: p.LogPublished, Metrics: metrics,
		Tuning: p.Tuning, Traces: dispatch.Traces{Provider: opts.traces, System: cfg.BrokerKind().TracedAs()},
	}
	var err error
	if !app.FollowsDatabase() { // a file that is wrong is told before anything is opened
		types, err := app.Registry(ctx)
		if err != nil {
			return nil, err
		}
		config.Catalogue, config.CatalogueName = types.Catalogue, types.Source
	}
	if config.Claims, err = s.pool(ctx, "outboxctl publish", p.Workers+2); err != nil {
		return nil, err
	}
	app.UsePool(config.Claims)
	if _, err := app.Registry(ctx); err != nil {
		return nil, err
	}
	if config.Settles, err = s.pool(ctx, "outboxctl publish settle", engine.DefaultSettlers+1); err != nil {
		return nil, err
	}
	s.claims = config.Claims
	if s.Dispatcher, err = dispatch.New(ctx, config); err != nil {
		return nil, unready(err)
	}
	app.OnClose(func() error { s.Close(); return nil })
	s.log = s.log.With().Str("publisher", s.ID()).Logger()
	return s, nil
}

// publisher is the broker's, for the topics of a catalogue.
func (s *publishService) publisher(ctx context.Context, types *catalogue.Catalogue) (dispatch.Publisher, error) {
	client, err := s.app.Broker(ctx)
	if err != nil {
		return nil, err
	}
	topics, err := s.app.TopicsOf(types)
	if err != nil {
		// At the start it is an error; a catalogue that is followed must not end every publisher.
		s.log.Warn().Err(err).Msg("a setting is not used any more")
	}
	return client.NewPublisher(topics), nil
}

// pool opens one of the two pools. Both want a server that can be written to, so that after a
// failover they find the primary.
func (s *publishService) pool(ctx context.Context, name string, conns int) (*pgxpool.Pool, error) {
	params := cli.PoolParams{Name: name, MaxConns: int32(conns), Writable: true}
	return s.app.OpenPool(ctx, s.cfg, params)
}

// unready is an error of the database before anything was begun: a precondition.
func unready(err error) error {
	err = fault.Database(err)
	if _, known := fault.KindOf(err); known {
		return err
	}
	return fault.As(fault.Precondition, err)
}

// Run publishes until ctx ends.
func (s *publishService) Run(ctx context.Context) error {
	s.log.Info().Str("version", s.app.Build.Version).Bool("once", s.once).
		Str("catalogue", s.State().Catalogue.Source).Msg("publishing")
	began := time.Now()
	var done dispatch.Totals
	var err error
	if s.once {
		done, err = s.Once(ctx)
	} else {
		err = s.Dispatcher.Run(ctx)
	}
	state := s.State()
	s.log.Info().Int64("published", state.Published).Int("in_flight", state.InFlight).Dur("ran_ms", time.Since(began)).Msg("stopped")
	if err == nil && s.once {
		s.sayParked(context.WithoutCancel(ctx))
		s.sayPaused(context.WithoutCancel(ctx))
		return unfinished(state, done)
	}
	return err
}

// sayParked warns of events that wait for an operator, which a run with --once does not.
func (s *publishService) sayParked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, parkedTimeout)
	defer cancel()
	if sample, err := stats.TakeSample(ctx, s.claims, s.cfg.Publish.MaxAttempts); err == nil && sample.Parked > 0 {
		s.log.Warn().Int64("parked", sample.Parked).Int64("blocked_keys", sample.BlockedKeys).
			Msg("events wait behind a dead one of their ordering key: outboxctl dlq list --blocking")
	}
}

// sayPaused warns of events that a run with --once leaves because an operator has paused them.
func (s *publishService) sayPaused(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, parkedTimeout)
	defer cancel()
	o, err := s.app.Outbox(ctx)
	if err != nil {
		return
	}
	pauses, _ := o.Pauses(ctx) // none where they cannot be read
	for _, p := range pauses {
		s.log.Warn().Str(p.Kind, p.Value).Int64("events", p.Events).Str("actor", p.Actor).Str("note", p.Note).
			Msg("paused, and left alone: outboxctl resume ends it")
	}
}

// unfinished is what a run with --once leaves to be done.
func unfinished(state dispatch.State, done dispatch.Totals) error {
	var left, hints []string
	if done.Dead > 0 {
		left = append(left, fmt.Sprintf("%d died", done.Dead))
		hints = append(hints, "outboxctl dlq list --group-by fingerprint shows the causes")
	}
	if done.Held > 0 {
		left = append(left, fmt.Sprintf("%d stay leased until %s: the reply to a claim was lost, or an outcome could not be recorded",
			done.Held, done.HeldUntil.UTC().Format(time.RFC3339)))
	} else if done.Held < 0 {
		left = append(left, "the database did not tell how many stay leased")
	}
	if done.Held != 0 {
		hints = append(hints, "run it again when the leases have ended")
	}
	for _, t := range state.Topics {
		if t.State != dispatch.Healthy {
			left = append(left, fmt.Sprintf("topic %s is %s: %s", t.Topic, t.State, t.Error))
		}
	}
	if len(left) == 0 {
		return nil
	}
	if len(hints) < len(left) {
		hints = append(hints, "outboxctl topic list shows what the broker has; the events of a topic that takes nothing keep waiting")
	}
	failed := ""
	if done.Failed > 0 {
		failed = words.Counted(done.Failed, "attempt") + " failed, "
	}
	return fault.Hint(fault.Partialf("%s published, %sbut %s", words.Counted(done.Published, "event"), failed, strings.Join(left, "; ")),
		"%s", strings.Join(hints, "; "))
}

func (s *publishService) checks() (checks []httpd.Check) {
	for _, c := range s.Checks() {
		checks = append(checks, httpd.Check{Name: c.Name, Run: c.Run})
	}
	return checks
}

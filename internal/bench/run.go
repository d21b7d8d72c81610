package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/pubsub"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// The logical topics the bench sends to.
const (
	domainTopic  = "domain"
	billingTopic = "billing"
)

// topics maps them to physical ones. The fake never gets the one of billing.
func topics() map[string]string {
	return map[string]string{domainTopic: "bench-domain", billingTopic: "bench-billing"}
}

// ErrWrong means that a run was not correct, so that its figures mean nothing.
var ErrWrong = errors.New("the broker did not receive every event once and unchanged")

// Run measures. The report is returned with ErrWrong too: it says what went wrong.
func Run(ctx context.Context, p Params) (_ *Report, err error) {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return nil, err
	}
	p.Progress("starting PostgreSQL")
	s, err := openServer(ctx, p.DatabaseURL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	report, err := (&session{server: s, params: p}).measure(ctx)
	if report != nil {
		report.Server = s.version
	}
	return report, err
}

// session is all runs of one command on one server.
type session struct {
	server *server
	params Params
}

func (s *session) measure(ctx context.Context) (*Report, error) {
	switch s.params.Mode {
	case ModeSteady:
		return s.steady(ctx)
	case ModePinnedXmin:
		return s.pinnedXmin(ctx, s.params)
	case ModeIdle:
		return s.idle(ctx)
	case ModeBackingOff, ModePausedTopic:
		return s.behindHead(ctx)
	case ModeBacklog:
		return s.backlog(ctx)
	case ModeHistory:
		return s.history(ctx)
	case ModeDrain:
		return s.drain(ctx)
	case ModeOrdered:
		return s.ordered(ctx)
	case ModeCatalogue:
		return s.catalogues(ctx)
	case ModePublishers:
		return s.publishers(ctx)
	case ModeConsume:
		return s.consume(ctx)
	case ModeUI:
		return s.ui(ctx)
	default:
		return s.one(ctx, s.params)
	}
}

// run is one measurement: a scratch database, a broker, and what was seen.
type run struct {
	params   Params
	registry *registry.Registry
	db       *database
	fake     *devstack.PubSub
	client   *pubsub.Client
	recorder *recorder
	meter    *meter
}

// with prepares a run, lets f measure, and cleans up whatever happens.
func (s *session) with(ctx context.Context, p Params, f func(*run) (*Report, error)) (_ *Report, err error) {
	r := &run{params: p, recorder: newRecorder(p.Events)}
	r.meter = newMeter(p.Mode == ModeSteady || p.Mode == ModePinnedXmin)
	defer func() { err = errors.Join(err, r.close()) }()
	// Pages touched for the first time after a checkpoint are logged whole. Taking
	// it now lets the emitting pay for that. Who may not, measures a little more.
	_, _ = s.server.admin.Exec(ctx, `CHECKPOINT`)
	if r.db, err = s.server.create(ctx, p.variant.options()); err != nil {
		return nil, err
	}
	if r.registry, err = p.variant.registry(ctx, r.db); err != nil {
		return nil, err
	}
	if r.fake, err = devstack.StartPubSub(ctx, devstack.PubSubParams{}); err != nil {
		return nil, err
	}
	r.client, err = pubsub.Connect(ctx, pubsub.Config{Project: r.fake.Project, Emulator: r.fake.Addr()})
	if err != nil {
		return nil, err
	}
	plan := pubsub.Plan(map[string]string{domainTopic: topics()[domainTopic]}, nil)
	if _, err = r.client.Ensure(ctx, pubsub.EnsureParams{Plan: plan, TopicsOnly: true}); err != nil {
		return nil, err
	}
	r.recorder.keep = p.Mode == ModeConsume
	r.recorder.watch(r.fake, topics()[domainTopic])
	return f(r)
}

func (r *run) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errs []error
	if r.client != nil {
		errs = append(errs, r.client.Close())
	}
	if r.fake != nil {
		errs = append(errs, r.fake.Stop(ctx))
	}
	if r.db != nil {
		errs = append(errs, r.db.drop())
	}
	return errors.Join(errs...)
}

// publisherTo is where the run's messages go.
func (r *run) publisherTo() dispatch.Publisher {
	if r.params.Mode == ModeFloor {
		return floorPublisher{r.recorder}
	}
	return r.client.NewPublisher(topics())
}

// one measures a single drain of what prepare put there.
func (s *session) one(ctx context.Context, p Params) (*Report, error) {
	return s.drainOf(ctx, p, func(r *run) error { return r.emit(ctx, p.Events) })
}

func (s *session) drainOf(ctx context.Context, p Params, prepare func(*run) error) (*Report, error) {
	return s.with(ctx, p, func(r *run) (*Report, error) {
		p.Progress("%s: emitting %d events", p.Mode, p.Events)
		began := time.Now()
		if err := prepare(r); err != nil {
			return nil, err
		}
		emitting := time.Since(began)
		if err := r.settleDown(ctx); err != nil {
			return nil, err
		}
		p.Progress("%s: draining", p.Mode)
		report, err := r.measureDrain(ctx)
		if report != nil && p.Mode == ModeCatalogue {
			report.EmitsPerSecond = float64(p.Events) / emitting.Seconds()
		}
		return report, err
	})
}

// measureDrain drains what is there and reports it.
func (r *run) measureDrain(ctx context.Context) (*Report, error) {
	before, err := r.db.counters(ctx)
	if err != nil {
		return nil, err
	}
	report := r.newReport()
	var took time.Duration
	switch {
	case r.params.Mode == ModeRowByRow:
		took, err = r.rowByRow(ctx)
	case r.params.Processes:
		took, report.MemoryBytes, err = r.drainOutside(ctx)
	default:
		took, err = r.drainInside(ctx, r.publisherTo())
		report.MemoryBytes = residentPeak(os.Getpid())
	}
	if err != nil {
		return nil, err
	}
	report.took(took)
	return report, r.finish(ctx, report, before)
}

func (r *run) newReport() *Report {
	p := r.params
	return &Report{
		Mode: p.Mode, Events: p.Events, PayloadBytes: p.PayloadBytes, Publishers: p.Publishers, Processes: p.Processes, Head: p.Head,
		Keys: p.Keys, Variant: p.variant.name,
	}
}

// finish adds what the server counted and judges whether the run was correct.
func (r *run) finish(ctx context.Context, report *Report, before counters) error {
	perEvent := int64(2) // a claim and a settle
	if r.params.Mode == ModeRowByRow {
		perEvent = 1
	}
	after, err := r.db.countersAfter(ctx, before, perEvent*int64(report.Events))
	if err != nil {
		return err
	}
	report.WALBytesPerEvent = float64(after.wal-before.wal) / float64(report.Events)
	if perEvent == 2 {
		claims := int64(report.Events)
		if !r.params.Processes {
			report.Claim, report.Settle = r.meter.costs()
			report.LeasesLost, report.Troubles = r.meter.mishaps()
			claims = report.Claim.Rows
		}
		report.HOTShare = min(1, float64(after.hot-before.hot)/float64(max(claims, 1)))
		report.ClaimIndexGrowth = float64(after.claimIndex) / float64(max(before.claimIndex, 1))
	}
	if report.Delivery, err = r.recorder.verify(ctx, r.db); err != nil {
		return fmt.Errorf("compare broker and table: %w", err)
	}
	if !report.Delivery.Exact() {
		return fmt.Errorf("%w: %+v", ErrWrong, report.Delivery)
	}
	if report.HeadDisturbed, err = r.disturbed(ctx); err != nil || report.HeadDisturbed == 0 {
		return err
	}
	return fmt.Errorf("%d of %d rows that had to be left alone were changed", report.HeadDisturbed, r.params.Head)
}

// disturbed counts rows in the way that do not look as they were put there.
func (r *run) disturbed(ctx context.Context) (n int64, err error) {
	attempts := 0
	switch r.params.Mode {
	case ModeBackingOff:
		attempts = backingOffAttempts
	case ModePausedTopic:
	default:
		return 0, nil
	}
	err = r.db.pool.QueryRow(ctx, `
SELECT count(*) FROM outbox_events
 WHERE namespace <> $1 AND (attempt_count <> $2 OR published_at IS NOT NULL OR dead_at IS NOT NULL OR locked_by IS NOT NULL)`,
		measured, attempts).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look at the rows in the way: %w", err)
	}
	return n, nil
}

// number prints a bound without needless digits.
func number(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }

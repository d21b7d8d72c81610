package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// The logical topics the bench sends to.
const (
	domainTopic  = "domain"
	billingTopic = "billing"
	// DomainTopic is what the first one is called at the broker.
	DomainTopic = "bench-domain"
)

// topics maps them to physical ones. The fake never gets the one of billing.
func topics() map[string]string {
	return map[string]string{domainTopic: DomainTopic, billingTopic: "bench-billing"}
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
	report, err := p.Mode.Measure(ctx, &Session{Params: p, server: s})
	if report != nil {
		report.Server = s.version
	}
	return report, err
}

// Session is all runs of one command on one server.
type Session struct {
	Params Params
	server *server
}

// Trial is one measurement: a scratch database, a broker, and what was seen.
type Trial struct {
	Params   Params
	DB       *Database
	Meter    *Meter
	registry *registry.Registry
	to       destination
	// Client and fake are there where the run's events go to Pub/Sub.
	Client   *pubsub.Client
	fake     *devstack.PubSub
	recorder *recorder
	// outside is the processor time of publishers in processes of their own, in nanoseconds.
	outside atomic.Int64
	// licenses are the only events that the example consumer handles.
	licenses bool
}

// With prepares a run, lets f measure, and cleans up whatever happens.
func (s *Session) With(ctx context.Context, p Params, f func(*Trial) (*Report, error)) (_ *Report, err error) {
	r := &Trial{Params: p, recorder: newRecorder(p.Events)}
	r.Meter = newMeter(p.Mode.Acks)
	defer func() { err = errors.Join(err, r.close()) }()
	// Pages touched for the first time after a checkpoint are logged whole. Taking
	// it now lets the emitting pay for that. Who may not, measures a little more.
	_, _ = s.server.admin.Exec(ctx, `CHECKPOINT`)
	if r.DB, err = s.server.create(ctx, p.Installation.Options); err != nil {
		return nil, err
	}
	r.registry = registry.New()
	if p.Installation.Registry != nil {
		if r.registry, err = p.Installation.Registry(ctx, r.DB); err != nil {
			return nil, err
		}
	}
	if err = p.Destination.open(ctx, r); err != nil {
		return nil, err
	}
	return f(r)
}

func (r *Trial) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var errs []error
	if r.to.close != nil {
		errs = append(errs, r.to.close(ctx))
	}
	if r.DB != nil {
		errs = append(errs, r.DB.drop())
	}
	return errors.Join(errs...)
}

// To is where the run's messages go.
func (r *Trial) To() dispatch.Publisher {
	if r.Params.Mode.To != nil {
		return r.Params.Mode.To(r)
	}
	return r.to.NewPublisher(r.to.topics)
}

// One measures a single drain of events that it emits.
func (s *Session) One(ctx context.Context, p Params) (*Report, error) {
	return s.Drain(ctx, p, func(r *Trial) error { return r.Emit(ctx, p.Events) })
}

// Drain measures a single drain of what prepare puts there.
func (s *Session) Drain(ctx context.Context, p Params, prepare func(*Trial) error) (*Report, error) {
	return s.With(ctx, p, func(r *Trial) (*Report, error) {
		p.Progress("%s: emitting %d events", p.Mode.Name, p.Events)
		began := time.Now()
		if err := prepare(r); err != nil {
			return nil, err
		}
		emitting := time.Since(began)
		if err := r.settleDown(ctx); err != nil {
			return nil, err
		}
		p.Progress("%s: draining", p.Mode.Name)
		report, err := r.measureDrain(ctx)
		if report != nil && p.Installation.Name != "" {
			report.EmitsPerSecond = float64(p.Events) / emitting.Seconds()
		}
		return report, err
	})
}

// measureDrain drains what is there and reports it.
func (r *Trial) measureDrain(ctx context.Context) (*Report, error) {
	before, err := r.DB.Counters(ctx)
	if err != nil {
		return nil, err
	}
	report := r.NewReport()
	var took time.Duration
	switch {
	case r.Params.Mode.Loop != nil:
		took, err = r.Params.Mode.Loop(ctx, r)
	case r.Params.Processes:
		took, report.MemoryBytes, err = r.drainOutside(ctx)
	default:
		took, err = r.DrainInside(ctx)
		report.MemoryBytes = ResidentPeak(os.Getpid())
	}
	if err != nil {
		return nil, err
	}
	report.Took(took)
	return report, r.Finish(ctx, report, before)
}

// NewReport is a report with the run's parameters in it.
func (r *Trial) NewReport() *Report {
	p := r.Params
	return &Report{
		Mode: p.Mode.Name, Broker: p.Destination.Name, Events: p.Events, PayloadBytes: p.PayloadBytes, Publishers: p.Publishers, Processes: p.Processes, Head: p.Head,
		Keys: p.Keys, Variant: p.Installation.Name,
	}
}

// Finish adds what the server counted and judges whether the run was correct.
func (r *Trial) Finish(ctx context.Context, report *Report, before Counters) error {
	after, err := r.DB.countersAfter(ctx, before, int64(report.Events))
	if err != nil {
		return err
	}
	report.WALBytesPerEvent = float64(after.wal-before.wal) / float64(report.Events)
	report.Spent = spent(before, after, time.Duration(r.outside.Load()), report.Events)
	if r.Params.Mode.Loop == nil {
		if !r.Params.Processes {
			report.Claim, report.Settle = r.Meter.Costs()
			report.LeasesLost, report.Troubles = r.Meter.mishaps()
		}
		report.WritesPerEvent = float64(after.updates-before.updates) / float64(report.Events)
		report.ClaimIndexGrowth = float64(after.claimIndex) / float64(max(before.claimIndex, 1))
	}
	if err := r.to.collect(ctx); err != nil {
		return err
	}
	if report.Delivery, err = r.recorder.verify(ctx, r.DB); err != nil {
		return fmt.Errorf("compare broker and table: %w", err)
	}
	if !report.Delivery.Exact() {
		return fmt.Errorf("%w: %+v", ErrWrong, report.Delivery)
	}
	if r.Params.Mode.Verify == nil {
		return nil
	}
	return r.Params.Mode.Verify(ctx, r, report)
}

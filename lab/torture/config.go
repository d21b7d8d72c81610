package torture

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// What every run has in common. The times are short so that a run of minutes sees every lease end
// and every backoff grow; the relations between them are those of the defaults.
const (
	publishers = 3
	producers  = 64
	aggregates = 1000
	// orderedAggregates of them are the ordering key of the events that are emitted for them.
	orderedAggregates = 100
	// looseKeys are the ordering keys of events that are emitted without a lock.
	looseKeys = "loose/"

	lease           = 8 * time.Second
	publishTimeout  = 4 * time.Second
	shutdownTimeout = 3 * time.Second
	backoffBase     = 100 * time.Millisecond
	backoffMax      = 2 * time.Second
	pollInterval    = 200 * time.Millisecond
	maxInFlight     = 4000

	cleanupAge = 20 * time.Second

	// quiet is how long the system has, beyond one lease, to finish after the last fault.
	quiet = 10 * time.Second
	// noticeTime is how long PostgreSQL has to notice that a client has gone.
	noticeTime = 5 * time.Second
	// DefaultPatience is how long consumers may take after that: a message in the hands of a killed
	// one comes back when the broker's deadline has passed, and waits for the dead one's lease in
	// Redis.
	DefaultPatience = 2 * time.Minute
)

// Config of a run.
type Config struct {
	// Seed fixes the workload and the faults.
	Seed uint64
	// Duration is how long producers and faults go on.
	Duration time.Duration
	// Rate is the number of events per second that are to be committed.
	Rate int
	// Program is outboxctl, built with the tag failpoints.
	Program string
	// Worker is the command line of the consumer that Redis alone guards.
	Worker []string
	// Dir takes the servers' state, the processes' logs and the history.
	Dir string
	// FakeTime is the path of libfaketime. Empty: the database's clock is right, and that is one fault
	// less.
	FakeTime string
	// Broker is what publishers publish to: one of rig.Fronts.
	Broker string
	// Only, when not empty, narrows the faults to these kinds, or to kinds with a detail as in
	// "publisher.crash:settle.sent".
	Only []string
	// Patience with the consumers at the end.
	Patience time.Duration
	// Log gets a line now and then.
	Log io.Writer
}

func (c Config) validate() error {
	var errs []error
	if c.Duration < 10*time.Second {
		errs = append(errs, errors.New("duration must be at least 10s"))
	}
	if c.Rate < 1 {
		errs = append(errs, errors.New("rate must be at least 1"))
	}
	if c.Program == "" || len(c.Worker) == 0 || c.Dir == "" {
		errs = append(errs, errors.New("program, worker and folder must be given"))
	}
	if !slices.Contains(rig.Fronts(), c.Broker) {
		errs = append(errs, fmt.Errorf("no such broker: %q", c.Broker))
	}
	return errors.Join(errs...)
}

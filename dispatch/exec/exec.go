// Package exec is the Publisher that hands each event to a command of the shell: a way to do
// without a broker, and without a service.
package exec

import (
	"io"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	broker "github.com/outboxctl/outboxctl/internal/broker/exec"
)

// Config is which command, and how.
type Config struct {
	// Command is one of the shell. The event's body is its input, and what else there is to know
	// is in its environment.
	Command string
	// Timeout bounds one command (30s); Tuning.PublishTimeout should be twice as long. Parallel
	// is how many of a topic run at once (4).
	Timeout  time.Duration
	Parallel int
	// Output gets what commands print; nil: nobody.
	Output io.Writer
}

// New returns a Publisher for logical topics, which are the keys of topics; the values are their
// names in OUTBOX_TOPIC.
func New(cfg Config, topics map[string]string) (dispatch.Publisher, error) {
	client, err := broker.New(broker.Config(cfg))
	if err != nil {
		return nil, err
	}
	return client.NewPublisher(topics), nil
}

package stats

import (
	"context"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// DependencyOK is the state of a dependency that answered.
const DependencyOK = "ok"

// probeTimeout bounds the probes: a report does not wait for a server that it does not need.
const probeTimeout = 300 * time.Millisecond

// A Probe asks one of the servers beside the database whether it answers.
type Probe struct {
	Name string
	Run  func(ctx context.Context) error
}

// probe runs all probes at once.
func probe(ctx context.Context, probes []Probe) map[string]string {
	if len(probes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answers := make([]string, len(probes))
	var running sync.WaitGroup
	for i, p := range probes {
		running.Go(func() {
			answers[i] = DependencyOK
			if err := p.Run(ctx); err != nil {
				answers[i] = "unreachable: " + safetext.Stored(fault.Address(p.Name, err).Error())
			}
		})
	}
	running.Wait()
	states := make(map[string]string, len(probes))
	for i, p := range probes {
		states[p.Name] = answers[i]
	}
	return states
}

package operate

import (
	"context"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
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

// StatsParams choose what Stats reports.
type StatsParams struct {
	// MaxAttempts is the publisher's maximum, for the rows that have none of their own.
	MaxAttempts int
	// By splits the backlog by one of stats.Dimensions; empty does not.
	By string
	// Probes are run beside the count; their answers are StatsResult.Dependencies.
	Probes []Probe
}

// StatsResult is the state of the outbox at one moment, and which of its dependencies answered.
type StatsResult struct {
	stats.Report

	// Dependencies has "ok" or the reason for each probe; the report needs none of them.
	Dependencies map[string]string `json:"dependencies,omitempty"`
}

// Stats reports what waits, what moves, what is dead and which publishers are alive.
func (o *Outbox) Stats(ctx context.Context, p StatsParams) (*StatsResult, error) {
	probed := make(chan map[string]string, 1)
	go func() { probed <- probe(ctx, p.Probes) }()
	report, err := stats.Collect(ctx, o.DB, o.Registry, stats.Params{MaxAttempts: p.MaxAttempts, By: p.By})
	dependencies := <-probed
	if err != nil {
		return nil, fault.Database(err)
	}
	return &StatsResult{Report: *report, Dependencies: dependencies}, nil
}

// probe runs all probes at once.
func probe(ctx context.Context, probes []Probe) map[string]string {
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

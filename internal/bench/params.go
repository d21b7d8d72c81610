package bench

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Params describes a run. Zero values mean the mode's default.
type Params struct {
	Mode Mode
	// Events is how many are emitted and must arrive. Steady modes emit
	// Rate × Duration instead.
	Events int
	// PayloadBytes is about the size of payload_json.
	PayloadBytes int
	// Publishers is how many share the work.
	Publishers int
	// Processes runs each publisher as a process of its own, so that its memory
	// can be told from the bench's.
	Processes bool
	// Rate is events per second of the steady modes.
	Rate int
	// Duration is how long the steady modes last.
	Duration time.Duration
	// Head is how many unclaimable rows stand in front, or how many published
	// ones lie behind.
	Head int
	// Keys is how many ordering keys the events of mode ordered share.
	Keys int
	// Workers and BatchSize are handed to the publisher; zero means its defaults.
	Workers   int
	BatchSize int
	// NoWake leaves the publisher to polling.
	NoWake bool
	// Check runs what the mode is compared with and judges the result.
	Check bool

	Installation Installation
	Destination  Destination

	// DatabaseURL is a server on which a scratch database may be created and
	// dropped. Empty starts a private one with PostgreSQL's default settings.
	DatabaseURL string
	// Executable is the outboxctl to run for Processes.
	Executable string
	// Progress is told what happens. May be nil.
	Progress func(format string, args ...any)
}

// maxPayloadBytes keeps a run in memory.
const maxPayloadBytes = 1 << 20

// withDefaults fills in what the product promises to be measured with.
func (p Params) withDefaults() Params {
	d := p.Mode.Defaults
	p.Destination.Name = cmp.Or(p.Destination.Name, toPubSub)
	events := 50_000
	if p.Destination.Name == toExec {
		events = 2_000 // each is a process
	}
	p.Events = cmp.Or(p.Events, d.Events, events)
	p.PayloadBytes = cmp.Or(p.PayloadBytes, 400)
	p.Publishers = cmp.Or(p.Publishers, d.Publishers, 1)
	p.Rate = cmp.Or(p.Rate, d.Rate, 200)
	p.Duration = cmp.Or(p.Duration, d.Duration, 20*time.Second)
	p.Head = cmp.Or(p.Head, d.Head)
	if p.Progress == nil {
		p.Progress = func(string, ...any) {}
	}
	return p
}

func (p Params) validate() error {
	var problems []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(p.Mode.Measure == nil, "no such mode: %q", p.Mode.Name)
	refuse(p.Events < 1, "events must be at least 1")
	refuse(p.PayloadBytes < 1 || p.PayloadBytes > maxPayloadBytes, "payload must be 1 to %d bytes", maxPayloadBytes)
	refuse(p.Publishers < 1 || p.Publishers > 64, "publishers must be 1 to 64")
	refuse(p.Rate < 1, "rate must be at least 1 per second")
	refuse(p.Duration < time.Second, "duration must be at least 1s")
	refuse(p.Head < 0 || p.Keys < 0 || p.Workers < 0 || p.BatchSize < 0, "head, keys, workers and batch size must not be negative")
	refuse(p.Processes && p.Executable == "", "processes need an executable")
	refuse(p.Processes && p.Mode.Inside, "mode %s measures from inside and cannot use processes", p.Mode.Name)
	elsewhere := p.Destination.Name != toPubSub
	refuse(elsewhere && p.Processes, "processes publish to Pub/Sub alone")
	refuse(elsewhere && p.Mode.Name == Consume().Name, "mode consume reads from Pub/Sub alone")
	if len(problems) == 0 {
		return nil
	}
	return &ParamError{errors.Join(problems...)}
}

// ParamError is everything that is wrong with the parameters.
type ParamError struct{ err error }

func (e *ParamError) Error() string { return e.err.Error() }
func (e *ParamError) Unwrap() error { return e.err }

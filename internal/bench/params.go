package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Mode is what is measured.
type Mode string

// The modes.
const (
	// ModeDrain empties a backlog.
	ModeDrain Mode = "drain"
	// ModeFloor is a drain without a broker: what the database alone allows.
	ModeFloor Mode = "db-only"
	// ModeRowByRow is the loop most people write first: publish a row, wait,
	// mark it, next.
	ModeRowByRow Mode = "row-by-row"
	// ModeSteady offers a steady rate and measures commit to acknowledgement.
	ModeSteady Mode = "steady"
	// ModePublishers lets several publishers share a backlog.
	ModePublishers Mode = "publishers"
	// ModePinnedXmin is a steady rate while a transaction keeps every dead row.
	ModePinnedXmin Mode = "pinned-xmin"
	// ModeBackingOff is a drain behind rows that wait for their next attempt.
	ModeBackingOff Mode = "backing-off"
	// ModePausedTopic is a drain behind rows of a topic the broker lacks.
	ModePausedTopic Mode = "paused-topic"
	// ModeBacklog compares the cost per event of a small and a large backlog.
	ModeBacklog Mode = "backlog"
	// ModeHistory compares it without and with published rows lying behind.
	ModeHistory Mode = "history"
	// ModeIdle measures a publisher that has nothing to do.
	ModeIdle Mode = "idle"
	// ModeOrdered drains events with ordering keys.
	ModeOrdered Mode = "ordered"
	// ModeCatalogue compares enum and text columns, few and many event types, with and without schemas.
	ModeCatalogue Mode = "catalogue"
	// ModeConsume lets the example consumer handle a waiting subscription.
	ModeConsume Mode = "consume"
	// ModeUI asks for every page over many rows, and drains beside viewers.
	ModeUI Mode = "ui"
)

// Modes lists every mode.
func Modes() []Mode {
	return []Mode{
		ModeDrain, ModeFloor, ModeRowByRow, ModeSteady, ModePublishers, ModePinnedXmin,
		ModeBackingOff, ModePausedTopic, ModeBacklog, ModeHistory, ModeOrdered, ModeCatalogue, ModeIdle, ModeConsume, ModeUI,
	}
}

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

	// variant is the installation that mode catalogue measures.
	variant variant

	// DatabaseURL is a server on which a scratch database may be created and
	// dropped. Empty starts a private one with PostgreSQL's default settings.
	DatabaseURL string
	// Executable is the outboxctl to run for Processes.
	Executable string
	// Progress is told what happens. May be nil.
	Progress func(format string, args ...any)
}

const (
	defaultPayloadBytes = 400
	// The bound of PayloadBytes keeps a run in memory.
	maxPayloadBytes = 1 << 20
)

// defaults are what the product promises to be measured with.
func (p Params) withDefaults() Params {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if p.Mode == "" {
		p.Mode = ModeDrain
	}
	set(&p.PayloadBytes, defaultPayloadBytes)
	switch p.Mode {
	case ModePublishers:
		set(&p.Events, 100_000)
		set(&p.Publishers, 3)
	case ModeRowByRow:
		set(&p.Events, 2_000)
	case ModeConsume:
		// The fake walks over everything that waits in it, a hundred times a second.
		set(&p.Events, 10_000)
	case ModePausedTopic, ModeBacklog:
		set(&p.Events, 50_000)
		set(&p.Head, 1_000_000)
	case ModeHistory:
		set(&p.Events, 50_000)
		set(&p.Head, 5_000_000)
	case ModeUI:
		set(&p.Events, 60_000)
		set(&p.Head, 50_000)
	case ModeBackingOff, ModeOrdered:
		set(&p.Events, 50_000)
		set(&p.Head, 100_000)
	default:
		set(&p.Events, 50_000)
	}
	if p.Mode == ModeOrdered {
		set(&p.Keys, max(p.Events/2, 1))
	}
	set(&p.Publishers, 1)
	if p.Mode == ModePinnedXmin || p.Mode == ModeOrdered {
		set(&p.Rate, 800)
	}
	if p.Mode == ModePinnedXmin {
		p.Duration = cmpDuration(p.Duration, 60*time.Second)
	}
	set(&p.Rate, 200)
	p.Duration = cmpDuration(p.Duration, 20*time.Second)
	if p.Progress == nil {
		p.Progress = func(string, ...any) {}
	}
	return p
}

func cmpDuration(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

func (p Params) validate() error {
	var problems []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(!slices.Contains(Modes(), p.Mode), "no such mode: %q", p.Mode)
	refuse(p.Events < 1, "events must be at least 1")
	refuse(p.PayloadBytes < 1 || p.PayloadBytes > maxPayloadBytes, "payload must be 1 to %d bytes", maxPayloadBytes)
	refuse(p.Publishers < 1 || p.Publishers > 64, "publishers must be 1 to 64")
	refuse(p.Rate < 1, "rate must be at least 1 per second")
	refuse(p.Duration < time.Second, "duration must be at least 1s")
	refuse(p.Head < 0 || p.Keys < 0 || p.Workers < 0 || p.BatchSize < 0, "head, keys, workers and batch size must not be negative")
	refuse(p.Mode == ModeUI && (p.Events < 3 || p.Head < deadShare), "mode ui needs at least 3 events and a head of %d", deadShare)
	refuse(p.Processes && p.Executable == "", "processes need an executable")
	refuse(p.Processes && slices.Contains([]Mode{ModeFloor, ModeRowByRow, ModeSteady, ModePinnedXmin, ModeCatalogue, ModeIdle, ModeConsume}, p.Mode),
		"mode %s measures from inside and cannot use processes", p.Mode)
	if len(problems) == 0 {
		return nil
	}
	return &ParamError{errors.Join(problems...)}
}

// ParamError is everything that is wrong with the parameters.
type ParamError struct{ err error }

func (e *ParamError) Error() string { return e.err.Error() }
func (e *ParamError) Unwrap() error { return e.err }

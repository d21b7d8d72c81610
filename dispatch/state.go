package dispatch

import "time"

// State is what a dispatcher reports of itself; stats and check of outboxctl show it.
type State struct {
	// InFlight and InFlightBytes are the events between claim and settle, and their payloads.
	InFlight      int
	InFlightBytes int64
	// Published counts since the start.
	Published int64
	Topics    []TopicState
	// Pauses are those that the dispatcher obeys, as kind=value.
	Pauses    []string
	Catalogue CatalogueState
}

// Health is whether a topic is published to.
type Health string

// The states of a topic.
const (
	// Healthy: its events are claimed and published.
	Healthy Health = "healthy"
	// Recovering: the broker answers again and one event is on trial.
	Recovering Health = "recovering"
	// Unreachable: the broker cannot be reached or stores nothing.
	Unreachable Health = "unreachable"
	// Refusing: the broker answers and refuses the topic until its configuration is changed.
	Refusing Health = "misconfigured"
)

// TopicState is one topic in State.
type TopicState struct {
	Topic string
	State Health
	// Since is when the topic became healthy or stopped being so.
	Since time.Time
	// Code and Error are the last failure's; empty while the topic is healthy.
	Code, Error string
}

// CatalogueState is the dispatcher's catalogue in State.
type CatalogueState struct {
	// Source is Config.CatalogueName, or database or packfinderz.
	Source string
	// Revision is that of the database's catalogue when the dispatcher looked last.
	Revision int64
	// Unknown are recorded types that the dispatcher does not claim because its catalogue
	// lacks them, StoodDown those that it leaves to others because an event did not fit; both
	// by namespace.
	Unknown, StoodDown map[string][]string
}

// Totals is what one run has done.
type Totals struct {
	Published, Failed, Dead int64
	// Held is how many events a run of Once has left leased, until HeldUntil: the reply to a
	// claim was lost, or an outcome could not be recorded. Another publisher gets them when the
	// lease has ended. -1 means that the database did not tell.
	Held      int
	HeldUntil time.Time
}

// State reports what the dispatcher does.
func (d *Dispatcher) State() State {
	s := d.state()
	state := State{
		InFlight: s.InFlight, InFlightBytes: s.InFlightBytes, Published: s.Published,
		Catalogue: CatalogueState{
			Source: s.Catalogue.Source, Revision: s.Catalogue.Revision,
			Unknown: s.Catalogue.Unknown, StoodDown: s.Catalogue.StoodDown,
		},
	}
	for _, p := range d.paused() {
		state.Pauses = append(state.Pauses, p.Name())
	}
	for _, t := range s.Topics {
		state.Topics = append(state.Topics,
			TopicState{Topic: t.Topic, State: Health(t.State), Since: t.Since, Code: t.Code, Error: t.Error})
	}
	return state
}

// Package broker is what outboxctl needs of a broker: who publishes, which topics and
// subscriptions there are and should be, and what its answers mean. Each broker is a package
// below this one, and a line in internal/cli/broker.go.
package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// Kind is a kind of broker, before it is connected to.
type Kind struct {
	// Name begins the names of its settings; Title is what people call it.
	Name, Title string
	// Settings are all that it can be told, in the order in which they are shown.
	Settings []Setting
	// Needs are the settings without which it cannot be opened.
	Needs []string
	// Subscription names the setting of the subscription that consume reads from, which is also
	// that of the topic domain; empty where nothing can be received.
	Subscription string
	// Limits are what it takes in one message as far as that is known without a connection.
	Limits wire.Limits
	// Retention is how long it keeps what was not acknowledged, and so how late it may deliver
	// an event once more.
	Retention time.Duration
	// CheckName refuses a name of a topic or a subscription (KindTopic, KindSubscription) that
	// the broker would refuse.
	CheckName func(kind, name string) error
	// Check returns what is wrong with settings that are fine alone, by the name of the setting
	// to blame; it may be nil.
	Check func(setting func(name string) string) map[string]error
	// Addr is host:port of a server that answers when the broker does, as far as settings tell;
	// empty where there is none. It may be nil.
	Addr func(setting func(name string) string) string
	// Takes is how long one message may take where that is set; it may be nil. The time-out and
	// the lease of a publisher that have no value of their own follow it.
	Takes func(setting func(name string) string) time.Duration
	// Remedy is what an operator looks at when the broker does not answer, and Rights when it
	// refuses to tell about a topic.
	Remedy, Rights string
	// Open prepares a client. It makes no connection: the first call does.
	Open func(context.Context, Params) (Broker, error)
}

// TracedAs is what OpenTelemetry calls it.
func (k Kind) TracedAs() string {
	if k.Name == "pubsub" {
		return "gcp_pubsub"
	}
	return k.Name
}

// Params of Open.
type Params struct {
	// Setting returns the value of a setting by its whole name.
	Setting        func(name string) string
	PublishTimeout time.Duration
	// UserAgent names this program to the broker.
	UserAgent string
	// Log gets what a program prints that the destination runs; nil where nobody reads it.
	Log io.Writer
}

// Broker is a client of one. It is safe for concurrent use.
type Broker interface {
	// NewPublisher publishes to the physical topics that stand for logical ones.
	NewPublisher(topics map[string]string) dispatch.Publisher
	// Plan is what should exist for these topics, with the names of subscriptions where they
	// are not derived from the topic's; both by logical topic.
	Plan(topics, subscriptions map[string]string) []PlannedTopic
	// List asks for every planned topic. One that is missing or forbidden is an answer; a
	// broker that does not answer is an error.
	List(ctx context.Context, plan []PlannedTopic) ([]Topic, error)
	// Ensure creates what is missing and reports each topic and subscription. Running it twice,
	// or two at once, is harmless.
	Ensure(ctx context.Context, p EnsureParams) ([]Action, error)
	// Source receives from a subscription; ErrNoSource where a broker has none.
	Source(ctx context.Context, p SourceParams) (Source, error)
	// Findings is what is worth saying of its settings; ordered: some events have an ordering key.
	Findings(ordered bool) []Finding
	// Explain says in our words why a request was not answered, and what to try.
	Explain(err error) (why, advice string)
	// Advice is what an operator has to do at the broker after Ensure has created something.
	Advice() string
	// String names the broker and the place in it, as in "Pub/Sub (project acme)".
	String() string
	Close() error
}

// Plain is embedded by a Broker about whose settings there is nothing to say.
type Plain struct{}

// Findings implements Broker.
func (Plain) Findings(bool) []Finding { return nil }

// Advice implements Broker.
func (Plain) Advice() string { return "" }

// PlannedTopic is one physical topic with everything that belongs to it.
type PlannedTopic struct {
	// Logical lists the logical topics that are sent here; more than one when
	// the configuration gives them the same physical name.
	Logical []string
	// Name is the physical topic.
	Name string
	// Subscription receives from Name.
	Subscription string
	// DeadLetterTopic takes what the subscription's consumer cannot handle, and
	// DeadLetterSubscription keeps it there: a topic without a subscription
	// forgets.
	DeadLetterTopic        string
	DeadLetterSubscription string
}

// The states of a Topic.
const (
	TopicReady   = "ready"
	TopicMissing = "missing"
	TopicRefused = "refused"
)

// Topic is one logical topic as the broker has it.
type Topic struct {
	// Topic is the logical name, Name the physical one. Several logical topics may share a physical
	// one.
	Topic string `json:"topic"`
	Name  string `json:"name"`
	State string `json:"state"`
	// Subscriptions are the ids attached to it, sorted. A topic without one forgets what is published
	// to it.
	Subscriptions []string `json:"subscriptions"`
	// Error is why the broker refused to tell.
	Error string `json:"error,omitempty"`
}

// Outcome is what Ensure found or did with one resource.
type Outcome string

// The outcomes of Ensure.
const (
	OutcomeCreated Outcome = "created"
	OutcomeExists  Outcome = "exists"
	// OutcomeMissing is something that was not created: in a dry run, or because it was left alone.
	OutcomeMissing Outcome = "missing"
	// OutcomeOrphaned marks a subscription that has lost its topic. It is left alone, and so is the
	// topic: a new one would not reach it.
	OutcomeOrphaned Outcome = "orphaned"
	// OutcomeDiffers marks an existing subscription that receives from another
	// topic, or not in order. It is left alone: its consumer may rely on what it is.
	OutcomeDiffers Outcome = "differs"
	// OutcomeFailed carries the broker's refusal in Action.Err.
	OutcomeFailed Outcome = "failed"
)

// Kinds of resource in an Action.
const (
	KindTopic        = "topic"
	KindSubscription = "subscription"
)

// Action is one resource and its outcome.
type Action struct {
	Kind    string  `json:"kind"`
	Name    string  `json:"name"`
	Topic   string  `json:"topic"` // the physical one
	Outcome Outcome `json:"outcome"`
	// Detail explains OutcomeDiffers and OutcomeFailed, and notes what an
	// operator should know about something that exists.
	Detail string `json:"detail,omitempty"`
	Err    error  `json:"-"`
}

// EnsureParams narrows what Ensure does.
type EnsureParams struct {
	Plan []PlannedTopic
	// DryRun looks and creates nothing.
	DryRun bool
	// TopicsOnly creates no subscriptions and no dead-letter topics.
	TopicsOnly bool
	// Ordered makes subscriptions that deliver the messages of an ordering key in
	// order. That is fixed when a subscription is created.
	Ordered bool
}

// ErrIncomplete means that some resource could not be made; the actions tell which.
var ErrIncomplete = errors.New("some topics or subscriptions are not as planned")

// Plan lists the physical topics, each once, as planned makes them of their names. A name in
// subscriptions, by logical topic, replaces the one that planned gives.
func Plan(topics, subscriptions map[string]string, planned func(physical string) PlannedTopic) (plan []PlannedTopic) {
	for _, logical := range slices.Sorted(maps.Keys(topics)) {
		physical := topics[logical]
		i := slices.IndexFunc(plan, func(t PlannedTopic) bool { return t.Name == physical })
		if i < 0 {
			i, plan = len(plan), append(plan, planned(physical))
		}
		plan[i].Logical = append(plan[i].Logical, logical)
		if name := subscriptions[logical]; name != "" {
			plan[i].Subscription = name
		}
	}
	return plan
}

// List describes every planned topic. One that is missing or forbidden is an answer; anything
// else that describe returns ends it. failure gives errors their class.
func List(
	plan []PlannedTopic, failure func(error) *dispatch.Failure,
	describe func(*Topic) (exists bool, err error),
) ([]Topic, error) {
	topics := make([]Topic, 0, len(plan))
	for _, t := range plan {
		found := Topic{Name: t.Name, State: TopicReady, Subscriptions: []string{}}
		exists, err := describe(&found)
		if err != nil {
			failed := failure(err)
			if failed.Class != dispatch.Misconfigured {
				return nil, fmt.Errorf("look up topic %s: %w", t.Name, failed)
			}
			found.State, found.Error = TopicRefused, failed.Error()
		} else if !exists {
			found.State = TopicMissing
		}
		for _, logical := range t.Logical {
			found.Topic = logical
			topics = append(topics, found)
		}
	}
	return topics, nil
}

// Step makes one thing of a planned topic.
type Step struct {
	// Kind is KindTopic or KindSubscription, Name its name, and Detail what is worth saying of one
	// that was missing.
	Kind, Name, Detail string
	// Exists looks for it, and Differs says how what was found is not as planned; it may be nil.
	Exists  func(context.Context) (bool, error)
	Differs func() string
	// Make creates it. Compares: what is there is made too, because the broker refuses to make it
	// otherwise.
	Make     func(context.Context) error
	Compares bool
	// Needed: the steps behind it need it.
	Needed bool
}

// Ensure takes the steps of every planned topic. refused is what an answer of the broker means
// for the one step; a broker that does not answer ends it.
func Ensure(
	ctx context.Context, p EnsureParams, steps func(PlannedTopic) []Step,
	refused func(error) (outcome Outcome, detail string, answered bool),
) (actions []Action, err error) {
	for _, t := range p.Plan {
		for _, s := range steps(t) {
			if s.Kind == KindSubscription && p.TopicsOnly {
				continue
			}
			a := Action{Kind: s.Kind, Name: s.Name, Topic: t.Name}
			exists, err := s.Exists(ctx)
			switch {
			case err != nil:
			case exists:
				a.Outcome = OutcomeExists
				if s.Differs != nil && s.Differs() != "" {
					a.Outcome, a.Detail = OutcomeDiffers, s.Differs()
				}
			case p.DryRun:
				a.Outcome, a.Detail = OutcomeMissing, s.Detail
			default:
				a.Outcome, a.Detail = OutcomeCreated, s.Detail
			}
			if err == nil && !p.DryRun && (!exists || s.Compares) {
				err = s.Make(ctx)
			}
			if err != nil {
				var answered bool
				if a.Outcome, a.Detail, answered = refused(err); !answered {
					return actions, err
				}
				if a.Outcome != OutcomeExists {
					a.Err = err
				}
			}
			actions = append(actions, a)
			if s.Needed && a.Outcome == OutcomeFailed {
				break
			}
		}
	}
	return actions, Complete(actions)
}

// Complete returns ErrIncomplete unless everything is as planned.
func Complete(actions []Action) error {
	wrong := []Outcome{OutcomeFailed, OutcomeDiffers, OutcomeOrphaned}
	if slices.ContainsFunc(actions, func(a Action) bool { return slices.Contains(wrong, a.Outcome) }) {
		return ErrIncomplete
	}
	return nil
}

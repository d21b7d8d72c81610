package broker

import (
	"fmt"
	"maps"
	"slices"

	"github.com/outboxctl/outboxctl/dispatch"
)

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
// else that describe returns ends it.
func List(plan []PlannedTopic, describe func(*Topic) (exists bool, err error)) ([]Topic, error) {
	topics := make([]Topic, 0, len(plan))
	for _, t := range plan {
		found := Topic{Name: t.Name, State: TopicReady, Subscriptions: []string{}}
		exists, err := describe(&found)
		switch {
		case err == nil && !exists:
			found.State = TopicMissing
		case err == nil:
		case dispatch.ClassOf(err) == dispatch.Misconfigured:
			found.State, found.Error = TopicRefused, err.Error()
		default:
			return nil, fmt.Errorf("look up topic %s: %w", t.Name, err)
		}
		for _, logical := range t.Logical {
			found.Topic = logical
			topics = append(topics, found)
		}
	}
	return topics, nil
}

// Complete returns ErrIncomplete unless everything is as planned.
func Complete(actions []Action) error {
	if slices.ContainsFunc(actions, func(a Action) bool { return a.Outcome == OutcomeFailed || a.Outcome == OutcomeDiffers }) {
		return ErrIncomplete
	}
	return nil
}

package pubsub

import (
	"slices"
	"time"
)

// Settings of the subscriptions that Ensure creates.
const (
	// AckDeadline is long enough for a handler with one slow dependency; the
	// client extends it while the handler runs.
	AckDeadline = 60 * time.Second
	// RetryBackoffMin and RetryBackoffMax keep a failing handler from spinning.
	RetryBackoffMin = 10 * time.Second
	RetryBackoffMax = 10 * time.Minute
	// MaxDeliveryAttempts is how often a handler may fail before the message
	// goes to the dead-letter topic.
	MaxDeliveryAttempts = 10
	// Retention is how long an unacknowledged message is kept.
	Retention = 7 * 24 * time.Hour
)

const (
	subscriptionSuffix = "-sub"
	deadLetterSuffix   = "-dead-letter"
)

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

// Plan derives the topics and subscriptions from configuration: topics maps each
// logical topic to its physical name, subscriptions names the subscription of a
// logical topic where it is not the topic's name with "-sub" behind it.
func Plan(topics, subscriptions map[string]string) []PlannedTopic {
	logical := make([]string, 0, len(topics))
	for name := range topics {
		logical = append(logical, name)
	}
	slices.Sort(logical)

	var plan []PlannedTopic
	for _, name := range logical {
		physical := topics[name]
		i := slices.IndexFunc(plan, func(t PlannedTopic) bool { return t.Name == physical })
		if i < 0 {
			i = len(plan)
			id := lastPart(physical)
			plan = append(plan, PlannedTopic{
				Name:                   physical,
				Subscription:           id + subscriptionSuffix,
				DeadLetterTopic:        id + deadLetterSuffix,
				DeadLetterSubscription: id + deadLetterSuffix + subscriptionSuffix,
			})
		}
		plan[i].Logical = append(plan[i].Logical, name)
		if sub := subscriptions[name]; sub != "" {
			plan[i].Subscription = sub
		}
	}
	return plan
}

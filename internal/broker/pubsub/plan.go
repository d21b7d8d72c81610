package pubsub

import (
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/broker"
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

// Plan derives the topics and subscriptions from configuration: topics maps each
// logical topic to its physical name, subscriptions names the subscription of a
// logical topic where it is not the topic's name with "-sub" behind it.
func Plan(topics, subscriptions map[string]string) []broker.PlannedTopic {
	logical := make([]string, 0, len(topics))
	for name := range topics {
		logical = append(logical, name)
	}
	slices.Sort(logical)

	var plan []broker.PlannedTopic
	for _, name := range logical {
		physical := topics[name]
		i := slices.IndexFunc(plan, func(t broker.PlannedTopic) bool { return t.Name == physical })
		if i < 0 {
			i = len(plan)
			id := lastPart(physical)
			plan = append(plan, broker.PlannedTopic{
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

package pubsub

import (
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
	return broker.Plan(topics, subscriptions, func(physical string) broker.PlannedTopic {
		id := lastPart(physical)
		return broker.PlannedTopic{
			Name:                   physical,
			Subscription:           id + subscriptionSuffix,
			DeadLetterTopic:        id + deadLetterSuffix,
			DeadLetterSubscription: id + deadLetterSuffix + subscriptionSuffix,
		}
	})
}

// Package http is the Publisher that hands each event to an HTTP service: a webhook sender, and a
// way to do without a broker.
package http

import (
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	broker "github.com/outboxctl/outboxctl/internal/broker/http"
)

// Config is where events go, and how.
type Config struct {
	// URL is where events of a topic go whose name is no URL. {topic}, {event_type} and
	// {namespace} in its path and query stand for the event's.
	URL string
	// Secrets sign each request as Standard Webhooks says, the newest first.
	Secrets []string
	// Timeout bounds one request (10s); Tuning.PublishTimeout should be twice as long. Parallel
	// is how many of a topic are under way at once (8).
	Timeout   time.Duration
	Parallel  int
	UserAgent string
}

// New returns a Publisher for logical topics, which are the keys of topics. A value is a topic's
// name in the URL, or a URL of its own.
func New(cfg Config, topics map[string]string) (dispatch.Publisher, error) {
	client, err := broker.New(broker.Config(cfg))
	if err != nil {
		return nil, err
	}
	return client.NewPublisher(topics), nil
}

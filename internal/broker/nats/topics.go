package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// Settings of the streams and consumers that Ensure creates.
const (
	// Retention is how long a stream keeps a message.
	Retention = 7 * 24 * time.Hour
	// dedupeWindow is how long a stream recognises an id: the server's default, in our words so
	// that a stream looks the same on every server.
	dedupeWindow = 2 * time.Minute
	ackWait      = time.Minute
	maxDeliver   = 10
)

const (
	consumerSuffix = "-sub"
	streamNames    = "$JS.API.STREAM.NAMES"
)

// errMayNotAsk: the account may not ask which stream takes a subject.
var errMayNotAsk = errors.New("the account may not ask for streams")

// Plan implements broker.Broker. There are no dead-letter topics: a stream keeps what its consumer
// cannot handle until it is too old.
func (c *Client) Plan(topics, subscriptions map[string]string) []broker.PlannedTopic {
	return broker.Plan(topics, subscriptions, func(physical string) broker.PlannedTopic {
		return broker.PlannedTopic{Name: physical, Subscription: plain(physical) + consumerSuffix}
	})
}

// streamOf returns the name of the stream that takes a subject.
func (c *Client) streamOf(ctx context.Context, subject string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	l, err := c.conn.Get(ctx)
	if err != nil {
		return "", err
	}
	if !l.conn.IsConnected() { // the library would wait for the connection
		return "", l.away()
	}
	denied, done := c.denied.wait(streamNames)
	defer done()
	type answer struct {
		name string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		name, err := l.js.StreamNameBySubject(ctx, subject)
		answers <- answer{name, err}
	}()
	select {
	case a := <-answers:
		return a.name, a.err
	case <-denied.c:
		return "", fmt.Errorf("%w: %w", errMayNotAsk, denied.err)
	}
}

// List implements broker.Broker.
func (c *Client) List(ctx context.Context, plan []broker.PlannedTopic) ([]broker.Topic, error) {
	return broker.List(plan, failure, func(t *broker.Topic) (exists bool, err error) {
		stream, err := c.streamOf(ctx, t.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		t.Subscriptions, err = c.consumers(ctx, stream, t.Name)
		return true, err
	})
}

// consumers are the durable ones of a stream that receive a subject, sorted.
func (c *Client) consumers(ctx context.Context, stream, subject string) ([]string, error) {
	names := []string{}
	err := c.call(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		list := s.ListConsumers(ctx)
		for info := range list.Info() {
			if info.Config.Durable != "" && receives(info.Config, subject) {
				names = append(names, info.Name)
			}
		}
		slices.Sort(names)
		return list.Err()
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// receives: a consumer without a filter receives everything.
func receives(cfg jetstream.ConsumerConfig, subject string) bool {
	filters := cfg.FilterSubjects
	if cfg.FilterSubject != "" {
		filters = append(filters, cfg.FilterSubject)
	}
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool { return covers(f, subject) })
}

// covers: * stands for one word of a subject, > for all that follow.
func covers(filter, subject string) bool {
	words := strings.Split(subject, ".")
	for i, want := range strings.Split(filter, ".") {
		switch {
		case i >= len(words):
			return false
		case want == ">":
			return true
		case want != "*" && want != words[i]:
			return false
		}
	}
	return strings.Count(filter, ".") == strings.Count(subject, ".")
}

// Ensure implements broker.Broker. A stream stores what is published from the moment it exists,
// so no publisher has to be held meanwhile.
func (c *Client) Ensure(ctx context.Context, p broker.EnsureParams) ([]broker.Action, error) {
	return broker.Ensure(ctx, p, func(t broker.PlannedTopic) []broker.Step {
		stream := plain(t.Name)
		return []broker.Step{c.streamStep(t, &stream), c.consumerStep(t, &stream, p.Ordered)}
	}, func(err error) (broker.Outcome, string, bool) {
		answered := apiError(err) != nil || dispatch.ClassOf(failure(err)) != dispatch.Retryable
		return broker.OutcomeFailed, explain(err), answered
	})
}

// streamStep makes the stream of a topic, and tells its name where another takes the subject.
func (c *Client) streamStep(t broker.PlannedTopic, stream *string) broker.Step {
	return broker.Step{
		Kind: broker.KindTopic, Name: t.Name, Detail: "stream " + *stream, Needed: true,
		Exists: func(ctx context.Context) (bool, error) {
			found, err := c.streamOf(ctx, t.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				return false, nil
			}
			*stream = cmp.Or(found, *stream)
			return err == nil, err
		},
		Make: func(ctx context.Context) error {
			return c.call(ctx, func(ctx context.Context, js jetstream.JetStream) error {
				_, err := js.CreateStream(ctx, jetstream.StreamConfig{
					Name: *stream, Subjects: []string{t.Name}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
					MaxAge: Retention, Duplicates: dedupeWindow, Replicas: c.cfg.Replicas,
				})
				return err
			})
		},
	}
}

func (c *Client) consumerStep(t broker.PlannedTopic, stream *string, ordered bool) broker.Step {
	want, there := consumerConfig(t, ordered), jetstream.ConsumerConfig{}
	return broker.Step{
		Kind: broker.KindSubscription, Name: t.Subscription,
		Exists: func(ctx context.Context) (bool, error) {
			err := c.call(ctx, func(ctx context.Context, js jetstream.JetStream) error {
				found, err := js.Consumer(ctx, *stream, t.Subscription)
				if err == nil {
					there = found.CachedInfo().Config
				}
				return err
			})
			if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
				return false, nil
			}
			return err == nil, err
		},
		Differs: func() string { return compare(there, want) },
		Make: func(ctx context.Context) error {
			return c.call(ctx, func(ctx context.Context, js jetstream.JetStream) error {
				_, err := js.CreateConsumer(ctx, *stream, want)
				return err
			})
		},
	}
}

// consumerConfig is a pull consumer. One that keeps the order hands out one message at a time:
// NATS knows no keys.
func consumerConfig(t broker.PlannedTopic, ordered bool) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable: t.Subscription, FilterSubject: t.Name, AckPolicy: jetstream.AckExplicitPolicy,
		DeliverPolicy: jetstream.DeliverAllPolicy, AckWait: ackWait, MaxDeliver: maxDeliver,
	}
	if ordered {
		cfg.MaxAckPending = 1
	}
	return cfg
}

// compare says how a consumer is other than planned. It is left alone: its program may rely on
// what it is.
func compare(found, want jetstream.ConsumerConfig) string {
	switch {
	case !receives(found, want.FilterSubject):
		return "it receives other subjects"
	case found.AckPolicy != jetstream.AckExplicitPolicy:
		return "it does not wait for each message's acknowledgement"
	case want.MaxAckPending == 1 && found.MaxAckPending != 1:
		return "it does not deliver in order: that needs max_ack_pending 1"
	}
	return ""
}

// call makes one request.
func (c *Client) call(ctx context.Context, f func(context.Context, jetstream.JetStream) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	l, err := c.conn.Get(ctx)
	if err != nil {
		return err
	}
	return f(ctx, l.js)
}

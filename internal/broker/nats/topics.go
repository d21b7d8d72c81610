package nats

import (
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
	return broker.List(plan, func(t *broker.Topic) (exists bool, err error) {
		stream, err := c.streamOf(ctx, t.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return false, nil
		}
		if err != nil {
			return false, failure(err)
		}
		t.Subscriptions, err = c.consumers(ctx, stream, t.Name)
		return true, err
	})
}

// consumers are the durable ones of a stream that receive a subject, sorted.
func (c *Client) consumers(ctx context.Context, stream, subject string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	l, err := c.conn.Get(ctx)
	if err != nil {
		return nil, failure(err)
	}
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return nil, failure(err)
	}
	names := []string{}
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if info.Config.Durable != "" && receives(info.Config, subject) {
			names = append(names, info.Name)
		}
	}
	slices.Sort(names)
	if list.Err() != nil {
		return nil, failure(list.Err())
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
	var actions []broker.Action
	for _, t := range p.Plan {
		stream, action, err := c.ensureStream(ctx, t, p.DryRun)
		if err != nil {
			return actions, err
		}
		actions = append(actions, action)
		if p.TopicsOnly || action.Outcome == broker.OutcomeFailed {
			continue
		}
		action, err = c.ensureConsumer(ctx, stream, t, p)
		if err != nil {
			return actions, err
		}
		actions = append(actions, action)
	}
	return actions, broker.Complete(actions)
}

func (c *Client) ensureStream(ctx context.Context, t broker.PlannedTopic, dryRun bool) (stream string, a broker.Action, err error) {
	a = broker.Action{Kind: broker.KindTopic, Name: t.Name, Topic: t.Name, Outcome: broker.OutcomeExists}
	stream, err = c.streamOf(ctx, t.Name)
	switch {
	case err == nil: // without a word: doctor warns of what is noted about something that exists
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return refused(stream, a, err)
	case dryRun:
		stream = plain(t.Name)
		a.Outcome, a.Detail = broker.OutcomeMissing, "stream "+stream
	default:
		stream = plain(t.Name)
		a.Outcome, a.Detail = broker.OutcomeCreated, "stream "+stream
		err = c.call(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{
				Name: stream, Subjects: []string{t.Name}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
				MaxAge: Retention, Duplicates: dedupeWindow, Replicas: c.cfg.Replicas,
			})
			return err
		})
		if err != nil {
			return refused(stream, a, err)
		}
	}
	return stream, a, nil
}

func (c *Client) ensureConsumer(ctx context.Context, stream string, t broker.PlannedTopic, p broker.EnsureParams) (a broker.Action, err error) {
	a = broker.Action{Kind: broker.KindSubscription, Name: t.Subscription, Topic: t.Name, Outcome: broker.OutcomeExists}
	want := consumerConfig(t, p.Ordered)
	err = c.call(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		found, err := js.Consumer(ctx, stream, t.Subscription)
		switch {
		case err == nil:
			a.Outcome, a.Detail = compare(found.CachedInfo().Config, want)
			return nil
		case !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound):
			return err
		case p.DryRun:
			a.Outcome = broker.OutcomeMissing
			return nil
		}
		a.Outcome = broker.OutcomeCreated
		_, err = js.CreateConsumer(ctx, stream, want)
		return err
	})
	if err != nil {
		_, a, err = refused("", a, err)
	}
	return a, err
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

// compare leaves a consumer alone that is other than planned: its program may rely on what it is.
func compare(found, want jetstream.ConsumerConfig) (broker.Outcome, string) {
	switch {
	case !receives(found, want.FilterSubject):
		return broker.OutcomeDiffers, "it receives other subjects"
	case found.AckPolicy != jetstream.AckExplicitPolicy:
		return broker.OutcomeDiffers, "it does not wait for each message's acknowledgement"
	case want.MaxAckPending == 1 && found.MaxAckPending != 1:
		return broker.OutcomeDiffers, "it does not deliver in order: that needs max_ack_pending 1"
	}
	return broker.OutcomeExists, ""
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

// refused puts a refusal into the action; that the server does not answer is an error.
func refused(stream string, a broker.Action, err error) (string, broker.Action, error) {
	if dispatch.ClassOf(failure(err)) == dispatch.Retryable && apiError(err) == nil {
		return stream, a, err
	}
	a.Outcome, a.Detail, a.Err = broker.OutcomeFailed, explain(err), err
	return stream, a, nil
}

package pubsub

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Outcome is what Ensure found or did with one resource.
type Outcome string

// The outcomes of Ensure.
const (
	OutcomeCreated Outcome = "created"
	OutcomeExists  Outcome = "exists"
	// OutcomeMissing is a dry run's outcome for something it would create.
	OutcomeMissing Outcome = "missing"
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

// Ensure creates the topics and subscriptions that are missing, and reports each
// one. It changes nothing that exists, so running it twice, or two at once, is
// harmless. One refusal does not stop the others; an unreachable broker does.
func (c *Client) Ensure(ctx context.Context, p EnsureParams) ([]Action, error) {
	e := ensurer{client: c, dryRun: p.DryRun, ordered: p.Ordered}
	for _, t := range p.Plan {
		if err := e.topic(ctx, t, p.TopicsOnly); err != nil {
			return e.actions, err
		}
	}
	for _, a := range e.actions {
		if a.Outcome == OutcomeFailed || a.Outcome == OutcomeDiffers {
			return e.actions, ErrIncomplete
		}
	}
	return e.actions, nil
}

type ensurer struct {
	client  *Client
	dryRun  bool
	ordered bool
	actions []Action
}

// topic makes the topic before its subscriptions and the dead-letter topic
// before the policy that names it: Pub/Sub refuses the other order.
func (e *ensurer) topic(ctx context.Context, t PlannedTopic, topicsOnly bool) error {
	if ok, err := e.makeTopic(ctx, t.Name); !ok || err != nil || topicsOnly {
		return err
	}
	if ok, err := e.makeTopic(ctx, t.DeadLetterTopic); !ok || err != nil {
		return err
	}
	if err := e.makeSubscription(ctx, t.DeadLetterSubscription, t.DeadLetterTopic, ""); err != nil {
		return err
	}
	return e.makeSubscription(ctx, t.Subscription, t.Name, t.DeadLetterTopic)
}

func (e *ensurer) makeTopic(ctx context.Context, id string) (ok bool, err error) {
	a := Action{Kind: KindTopic, Name: id, Topic: id}
	err = ValidateName(KindTopic, id)
	if err == nil {
		path := e.client.topicPath(id)
		err = e.call(ctx, func(ctx context.Context) error {
			if e.dryRun {
				_, err := e.client.pubsub.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: path})
				return err
			}
			_, err := e.client.pubsub.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: path})
			return err
		})
	}
	return e.record(a, err)
}

func (e *ensurer) makeSubscription(ctx context.Context, id, topic, deadLetterTopic string) error {
	a := Action{Kind: KindSubscription, Name: id, Topic: topic}
	err := ValidateName(KindSubscription, id)
	want := e.client.subscription(id, topic, deadLetterTopic)
	want.EnableMessageOrdering = e.ordered
	if err == nil && !e.dryRun {
		err = e.call(ctx, func(ctx context.Context) error {
			_, err := e.client.pubsub.SubscriptionAdminClient.CreateSubscription(ctx, want)
			return err
		})
	}
	// What exists already is compared, never altered.
	if e.dryRun && err == nil || codeOf(err) == codes.AlreadyExists {
		var have *pubsubpb.Subscription
		getErr := e.call(ctx, func(ctx context.Context) (err error) {
			have, err = e.client.pubsub.SubscriptionAdminClient.GetSubscription(ctx,
				&pubsubpb.GetSubscriptionRequest{Subscription: want.GetName()})
			return err
		})
		if getErr == nil {
			a.Outcome, a.Detail = compare(want, have)
		}
		if e.dryRun {
			err = getErr
		}
	}
	_, err = e.record(a, err)
	return err
}

// call bounds one administrative call.
func (e *ensurer) call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.client.cfg.ProbeTimeout)
	defer cancel()
	return f(ctx)
}

// record turns the broker's answer into an action. ok is false when what depends
// on this resource cannot be made; err ends the whole run.
func (e *ensurer) record(a Action, err error) (ok bool, fatal error) {
	code := codeOf(err)
	switch {
	case a.Outcome != "":
	case err == nil && !e.dryRun:
		a.Outcome = OutcomeCreated
	case err == nil || code == codes.AlreadyExists:
		a.Outcome = OutcomeExists
	case e.dryRun && code == codes.NotFound:
		a.Outcome = OutcomeMissing
	case code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled:
		return false, fmt.Errorf("ensure %s %s: %w", a.Kind, a.Name, err)
	default:
		a.Outcome, a.Err, a.Detail = OutcomeFailed, err, err.Error()
	}
	e.actions = append(e.actions, a)
	return a.Outcome != OutcomeFailed, nil
}

// subscription is the request that creates one. Expiry is switched off: by
// default Pub/Sub deletes a subscription that was not read for 31 days, with
// whatever it held.
func (c *Client) subscription(id, topic, deadLetterTopic string) *pubsubpb.Subscription {
	sub := &pubsubpb.Subscription{
		Name:                     c.subscriptionPath(id),
		Topic:                    c.topicPath(topic),
		AckDeadlineSeconds:       int32(AckDeadline.Seconds()),
		MessageRetentionDuration: durationpb.New(Retention),
		ExpirationPolicy:         &pubsubpb.ExpirationPolicy{},
		RetryPolicy: &pubsubpb.RetryPolicy{
			MinimumBackoff: durationpb.New(RetryBackoffMin),
			MaximumBackoff: durationpb.New(RetryBackoffMax),
		},
	}
	if deadLetterTopic != "" {
		sub.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{
			DeadLetterTopic:     c.topicPath(deadLetterTopic),
			MaxDeliveryAttempts: MaxDeliveryAttempts,
		}
	}
	return sub
}

// compare judges an existing subscription. The wrong topic makes it useless, and so
// does delivery in any order where order is asked for.
// Dead letters that go elsewhere or nowhere are reported; other deadlines are the
// operator's choice.
func compare(want, have *pubsubpb.Subscription) (Outcome, string) {
	if have.GetTopic() != want.GetTopic() {
		return OutcomeDiffers, fmt.Sprintf("receives from %s, not from %s", lastPart(have.GetTopic()), lastPart(want.GetTopic()))
	}
	if want.GetEnableMessageOrdering() && !have.GetEnableMessageOrdering() {
		return OutcomeDiffers, "does not deliver in order, which is fixed when a subscription is created: delete it once it is empty"
	}
	wantDead := want.GetDeadLetterPolicy().GetDeadLetterTopic()
	haveDead := have.GetDeadLetterPolicy().GetDeadLetterTopic()
	switch {
	case wantDead == haveDead || wantDead == "":
		return OutcomeExists, ""
	case haveDead == "":
		return OutcomeExists, "has no dead-letter policy: a message that always fails is delivered for ever"
	default:
		return OutcomeExists, fmt.Sprintf("sends dead letters to %s, not to %s", lastPart(haveDead), lastPart(wantDead))
	}
}

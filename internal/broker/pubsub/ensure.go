package pubsub

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outboxctl/outboxctl/internal/broker"
)

const (
	// deletedTopic is what Pub/Sub names as the topic of a subscription whose topic was deleted. A new
	// topic of the same name does not get it back.
	deletedTopic = "_deleted-topic_"
	orphanDetail = "has lost its topic: nothing that is published reaches it"
)

// Ensure creates the topics and subscriptions that are missing, and reports each one. It changes
// nothing else, so running it twice, or two at once, is harmless. A topic is left alone where a
// subscription has lost it: a new one would take what is published and deliver it to nobody. One
// refusal does not stop the others; an unreachable broker does.
func (c *Client) Ensure(ctx context.Context, p broker.EnsureParams) ([]broker.Action, error) {
	e := ensurer{client: c, EnsureParams: p}
	subscriptions, err := e.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list subscriptions: %w", err)
	}
	for _, t := range p.Plan {
		ensure := e.make
		lost := e.orphans(t, subscriptions)
		if len(lost) > 0 {
			ensure = e.look
		}
		if err := ensure(ctx, t); err != nil {
			return e.actions, err
		}
		for _, name := range lost {
			e.actions = append(e.actions, broker.Action{
				Kind: broker.KindSubscription, Name: name, Topic: t.Name, Outcome: broker.OutcomeOrphaned, Detail: orphanDetail,
			})
		}
	}
	return e.actions, broker.Complete(e.actions)
}

type ensurer struct {
	broker.EnsureParams
	client  *Client
	actions []broker.Action
}

// list reads the project's subscriptions. An account that may not list them has none.
func (e *ensurer) list(ctx context.Context) (list []*pubsubpb.Subscription, err error) {
	err = e.call(ctx, func(ctx context.Context) error {
		it := e.client.pubsub.SubscriptionAdminClient.ListSubscriptions(ctx, &pubsubpb.ListSubscriptionsRequest{
			Project: "projects/" + e.client.cfg.Project, PageSize: 1000,
		})
		for {
			sub, err := it.Next()
			if errors.Is(err, iterator.Done) {
				return nil
			}
			if err != nil {
				return err
			}
			list = append(list, sub)
		}
	})
	if codeOf(err) == codes.PermissionDenied {
		err = nil
	}
	return list, err
}

// orphans are the subscriptions that have lost a planned topic: the planned ones, and those with the
// planned dead-letter topic. Any other may have been of any topic.
func (e *ensurer) orphans(t broker.PlannedTopic, subscriptions []*pubsubpb.Subscription) (lost []string) {
	for _, sub := range subscriptions {
		id := lastPart(sub.GetName())
		planned := id == lastPart(t.Subscription) || id == lastPart(t.DeadLetterSubscription) ||
			sub.GetDeadLetterPolicy().GetDeadLetterTopic() == e.client.topicPath(t.DeadLetterTopic)
		if planned && sub.GetTopic() == deletedTopic {
			lost = append(lost, id)
		}
	}
	return lost
}

// look reports a topic and makes nothing.
func (e *ensurer) look(ctx context.Context, t broker.PlannedTopic) error {
	looking := ensurer{client: e.client, EnsureParams: broker.EnsureParams{DryRun: true}}
	_, err := looking.makeTopic(ctx, t.Name)
	e.actions = append(e.actions, looking.actions...)
	return err
}

// make makes the dead-letter topic and its subscription first, then the topic and at once its
// subscription: Pub/Sub refuses a policy whose topic is missing.
func (e *ensurer) make(ctx context.Context, t broker.PlannedTopic) error {
	if e.TopicsOnly {
		_, err := e.makeTopic(ctx, t.Name)
		return err
	}
	if ok, err := e.makeTopic(ctx, t.DeadLetterTopic); !ok || err != nil {
		return err
	}
	if ok, err := e.makeSubscription(ctx, t.DeadLetterSubscription, t.DeadLetterTopic, ""); !ok || err != nil {
		return err
	}
	if ok, err := e.makeTopic(ctx, t.Name); !ok || err != nil {
		return err
	}
	_, err := e.makeSubscription(ctx, t.Subscription, t.Name, t.DeadLetterTopic)
	return err
}

func (e *ensurer) makeTopic(ctx context.Context, id string) (ok bool, err error) {
	a := broker.Action{Kind: broker.KindTopic, Name: id, Topic: id}
	err = ValidateName(broker.KindTopic, id)
	if err == nil {
		path := e.client.topicPath(id)
		err = e.call(ctx, func(ctx context.Context) error {
			if e.DryRun {
				_, err := e.client.pubsub.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: path})
				return err
			}
			_, err := e.client.pubsub.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: path})
			return err
		})
	}
	return e.record(a, err)
}

func (e *ensurer) makeSubscription(ctx context.Context, id, topic, deadLetterTopic string) (ok bool, err error) {
	a := broker.Action{Kind: broker.KindSubscription, Name: id, Topic: topic}
	err = ValidateName(broker.KindSubscription, id)
	want := e.client.subscription(id, topic, deadLetterTopic)
	want.EnableMessageOrdering = e.Ordered
	if err == nil && !e.DryRun {
		err = e.call(ctx, func(ctx context.Context) error {
			_, err := e.client.pubsub.SubscriptionAdminClient.CreateSubscription(ctx, want)
			return err
		})
	}
	// What exists already is compared, never altered.
	if e.DryRun && err == nil || codeOf(err) == codes.AlreadyExists {
		var have *pubsubpb.Subscription
		getErr := e.call(ctx, func(ctx context.Context) (err error) {
			have, err = e.client.pubsub.SubscriptionAdminClient.GetSubscription(ctx,
				&pubsubpb.GetSubscriptionRequest{Subscription: want.GetName()})
			return err
		})
		if getErr == nil {
			// One for dead letters is shared by the topic's subscriptions, and promises nobody order.
			want.EnableMessageOrdering = e.Ordered && deadLetterTopic != ""
			a.Outcome, a.Detail = compare(want, have)
		}
		if e.DryRun {
			err = getErr
		}
	}
	return e.record(a, err)
}

// call bounds one administrative call.
func (e *ensurer) call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := f(ctx)
	if codeOf(err) == codes.DeadlineExceeded {
		return context.DeadlineExceeded // not as the library words it
	}
	return err
}

// record turns the broker's answer into an action. ok is false when what depends
// on this resource cannot be made; err ends the whole run.
func (e *ensurer) record(a broker.Action, err error) (ok bool, fatal error) {
	code := codeOf(err)
	switch {
	case a.Outcome != "":
	case err == nil && !e.DryRun:
		a.Outcome = broker.OutcomeCreated
	case err == nil || code == codes.AlreadyExists:
		a.Outcome = broker.OutcomeExists
	case e.DryRun && code == codes.NotFound:
		a.Outcome = broker.OutcomeMissing
	case code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled:
		return false, fmt.Errorf("ensure %s %s: %w", a.Kind, a.Name, err)
	default:
		a.Outcome, a.Err, a.Detail = broker.OutcomeFailed, err, err.Error()
	}
	e.actions = append(e.actions, a)
	return a.Outcome != broker.OutcomeFailed, nil
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
func compare(want, have *pubsubpb.Subscription) (broker.Outcome, string) {
	if have.GetTopic() == deletedTopic {
		return broker.OutcomeOrphaned, orphanDetail
	}
	if have.GetTopic() != want.GetTopic() {
		return broker.OutcomeDiffers, fmt.Sprintf("receives from %s, not from %s", lastPart(have.GetTopic()), lastPart(want.GetTopic()))
	}
	if want.GetEnableMessageOrdering() && !have.GetEnableMessageOrdering() {
		return broker.OutcomeDiffers, "does not deliver in order, which is fixed when a subscription is created: delete it once it is empty"
	}
	wantDead := want.GetDeadLetterPolicy().GetDeadLetterTopic()
	haveDead := have.GetDeadLetterPolicy().GetDeadLetterTopic()
	switch {
	case wantDead == haveDead || wantDead == "":
		return broker.OutcomeExists, ""
	case haveDead == "":
		return broker.OutcomeExists, "has no dead-letter policy: a message that always fails is delivered for ever"
	default:
		return broker.OutcomeExists, fmt.Sprintf("sends dead letters to %s, not to %s", lastPart(haveDead), lastPart(wantDead))
	}
}

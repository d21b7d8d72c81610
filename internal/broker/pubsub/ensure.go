package pubsub

import (
	"context"
	"fmt"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// Ensure creates the topics and subscriptions that are missing, replaces the
// subscriptions whose topic was deleted, and reports each one. It changes nothing
// else, so running it twice, or two at once, is harmless. One refusal does not stop
// the others; an unreachable broker does. What is held when it cannot finish a
// topic stays held: the next run finishes it.
func (c *Client) Ensure(ctx context.Context, p broker.EnsureParams) ([]broker.Action, error) {
	e := ensurer{client: c, EnsureParams: p}
	for _, t := range p.Plan {
		if err := e.topic(ctx, t); err != nil {
			return e.actions, err
		}
	}
	return e.actions, broker.Complete(e.actions)
}

type ensurer struct {
	broker.EnsureParams
	client  *Client
	actions []broker.Action
	// subscriptions are those of the project; nil: they have to be read.
	subscriptions []*pubsubpb.Subscription
}

// topic makes a topic and what belongs to it. Publishers are held while there is no telling that
// what they send arrives.
func (e *ensurer) topic(ctx context.Context, t broker.PlannedTopic) error {
	found, err := e.look(ctx, t)
	if err != nil {
		_, err = e.record(broker.Action{Kind: broker.KindTopic, Name: t.Name, Topic: t.Name}, err)
		return err
	}
	if e.DryRun || found.whole() {
		return e.make(ctx, t, found)
	}
	if len(found.orphans) > 0 && (e.Hold == nil || e.TopicsOnly) {
		e.refuse(t, found)
		return nil
	}
	if e.Hold == nil {
		return e.make(ctx, t, found)
	}
	release, err := e.Hold(ctx, t.Logical)
	if err != nil {
		return &broker.HoldError{Topic: t.Name, Err: err}
	}
	e.subscriptions = nil
	if found, err = e.look(ctx, t); err != nil { // again: another run may have finished meanwhile
		return err
	}
	first := len(e.actions)
	if err := e.make(ctx, t, found); err != nil {
		return err
	}
	if broker.Complete(e.actions[first:]) != nil {
		// A topic that does not exist takes nothing, so nothing has to be held.
		if found, err = e.look(ctx, t); err != nil || found.exists {
			return err
		}
	}
	return release(ctx)
}

// refuse reports orphans that are not replaced, and their topic.
func (e *ensurer) refuse(t broker.PlannedTopic, found state) {
	why := "replacing it needs the database, where publishing is paused meanwhile"
	if e.TopicsOnly {
		why = "run this without --topics-only"
	}
	topic := broker.Action{Kind: broker.KindTopic, Name: t.Name, Topic: t.Name, Outcome: broker.OutcomeExists}
	if !found.exists {
		topic.Outcome, topic.Detail = broker.OutcomeFailed, "not created: what is published would not reach its subscriptions"
	}
	e.actions = append(e.actions, topic)
	for _, sub := range found.orphans {
		e.actions = append(e.actions, broker.Action{
			Kind: broker.KindSubscription, Name: spared(sub), Topic: t.Name, Outcome: broker.OutcomeFailed, Detail: orphanDetail + "; " + why,
		})
	}
}

// make makes the dead-letter topic and its subscription first, then the topic and
// at once its subscriptions: Pub/Sub refuses a policy whose topic is missing.
func (e *ensurer) make(ctx context.Context, t broker.PlannedTopic, found state) error {
	if e.TopicsOnly {
		_, err := e.makeTopic(ctx, t.Name)
		return err
	}
	if ok, err := e.makeDeadLetters(ctx, t, found); !ok || err != nil {
		return err
	}
	if ok, err := e.makeTopic(ctx, t.Name); !ok || err != nil {
		return err
	}
	planned := false
	for _, sub := range found.orphans {
		if e.DryRun {
			e.actions = append(e.actions, broker.Action{Kind: broker.KindSubscription, Name: spared(sub), Topic: t.Name, Outcome: broker.OutcomeOrphaned, Detail: orphanDetail})
		} else if _, err := e.replace(ctx, sub, t.Name, t.DeadLetterTopic); err != nil {
			return err
		}
		planned = planned || spared(sub) == lastPart(t.Subscription)
	}
	if planned {
		return nil
	}
	_, err := e.makeSubscription(ctx, t.Subscription, t.Name, t.DeadLetterTopic)
	return err
}

func (e *ensurer) makeDeadLetters(ctx context.Context, t broker.PlannedTopic, found state) (ok bool, err error) {
	if found.deadLetters != nil && !e.DryRun {
		return e.replaceDeadLetters(ctx, found.deadLetters, t)
	}
	if ok, err := e.makeTopic(ctx, t.DeadLetterTopic); !ok || err != nil {
		return ok, err
	}
	return e.makeSubscription(ctx, t.DeadLetterSubscription, t.DeadLetterTopic, "")
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

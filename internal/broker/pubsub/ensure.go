package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	// OutcomeReplaced marks a subscription whose topic had been deleted: it was
	// deleted and created again with its settings.
	OutcomeReplaced Outcome = "replaced"
	// OutcomeOrphaned is a dry run's outcome for a subscription it would replace.
	OutcomeOrphaned Outcome = "orphaned"
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
	// Retention is how long a replaced subscription kept messages: whatever it had
	// not delivered was published since then.
	Retention time.Duration `json:"-"`
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
	// Hold keeps publishers from sending to logical topics until release is called.
	// What they send to a topic before its subscriptions exist is lost, and a topic
	// is made before its subscriptions: Pub/Sub refuses the other order. Without
	// Hold a topic that has lost its subscriptions is left alone.
	Hold func(ctx context.Context, topics []string) (release func(context.Context) error, err error)
}

// ErrIncomplete means that some resource could not be made; the actions tell which.
var ErrIncomplete = errors.New("some topics or subscriptions are not as planned")

// Ensure creates the topics and subscriptions that are missing, replaces the
// subscriptions whose topic was deleted, and reports each one. It changes nothing
// else, so running it twice, or two at once, is harmless. One refusal does not stop
// the others; an unreachable broker does. What is held when it cannot finish a
// topic stays held: the next run finishes it.
func (c *Client) Ensure(ctx context.Context, p EnsureParams) ([]Action, error) {
	e := ensurer{client: c, EnsureParams: p}
	for _, t := range p.Plan {
		if err := e.topic(ctx, t); err != nil {
			return e.actions, err
		}
	}
	if e.incomplete(0) {
		return e.actions, ErrIncomplete
	}
	return e.actions, nil
}

type ensurer struct {
	EnsureParams
	client  *Client
	actions []Action
	// subscriptions are those of the project; nil: they have to be read.
	subscriptions []*pubsubpb.Subscription
}

// incomplete reports whether an action, from one on, did not come to what was planned.
func (e *ensurer) incomplete(from int) bool {
	return slices.ContainsFunc(e.actions[from:], func(a Action) bool { return a.Outcome == OutcomeFailed || a.Outcome == OutcomeDiffers })
}

// topic makes a topic and what belongs to it. Publishers are held while there is no telling that what they send arrives.
func (e *ensurer) topic(ctx context.Context, t PlannedTopic) error {
	found, err := e.look(ctx, t)
	if err != nil {
		_, err = e.record(Action{Kind: KindTopic, Name: t.Name, Topic: t.Name}, err)
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
		return &HoldError{t.Name, err}
	}
	e.subscriptions = nil
	if found, err = e.look(ctx, t); err != nil { // again: another run may have finished meanwhile
		return err
	}
	first := len(e.actions)
	if err := e.make(ctx, t, found); err != nil {
		return err
	}
	if e.incomplete(first) {
		// A topic that does not exist takes nothing, so nothing has to be held.
		if found, err = e.look(ctx, t); err != nil || found.exists {
			return err
		}
	}
	return release(ctx)
}

// HoldError means that publishers could not be held, so that the topic was left alone.
type HoldError struct {
	Topic string
	Err   error
}

func (e *HoldError) Error() string { return fmt.Sprintf("topic %s is left alone: %v", e.Topic, e.Err) }
func (e *HoldError) Unwrap() error { return e.Err }

// refuse reports orphans that are not replaced, and their topic.
func (e *ensurer) refuse(t PlannedTopic, found state) {
	why := "replacing it needs the database, where publishing is paused meanwhile"
	if e.TopicsOnly {
		why = "run this without --topics-only"
	}
	topic := Action{Kind: KindTopic, Name: t.Name, Topic: t.Name, Outcome: OutcomeExists}
	if !found.exists {
		topic.Outcome, topic.Detail = OutcomeFailed, "not created: what is published would not reach its subscriptions"
	}
	e.actions = append(e.actions, topic)
	for _, sub := range found.orphans {
		e.actions = append(e.actions, Action{
			Kind: KindSubscription, Name: spared(sub), Topic: t.Name, Outcome: OutcomeFailed, Detail: orphanDetail + "; " + why,
		})
	}
}

// make makes the dead-letter topic and its subscription first, then the topic and
// at once its subscriptions: Pub/Sub refuses a policy whose topic is missing.
func (e *ensurer) make(ctx context.Context, t PlannedTopic, found state) error {
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
			e.actions = append(e.actions, Action{Kind: KindSubscription, Name: spared(sub), Topic: t.Name, Outcome: OutcomeOrphaned, Detail: orphanDetail})
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

func (e *ensurer) makeDeadLetters(ctx context.Context, t PlannedTopic, found state) (ok bool, err error) {
	if found.deadLetters != nil && !e.DryRun {
		return e.replaceDeadLetters(ctx, found.deadLetters, t)
	}
	if ok, err := e.makeTopic(ctx, t.DeadLetterTopic); !ok || err != nil {
		return ok, err
	}
	return e.makeSubscription(ctx, t.DeadLetterSubscription, t.DeadLetterTopic, "")
}

func (e *ensurer) makeTopic(ctx context.Context, id string) (ok bool, err error) {
	a := Action{Kind: KindTopic, Name: id, Topic: id}
	err = ValidateName(KindTopic, id)
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
	a := Action{Kind: KindSubscription, Name: id, Topic: topic}
	err = ValidateName(KindSubscription, id)
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
	case err == nil && !e.DryRun:
		a.Outcome = OutcomeCreated
	case err == nil || code == codes.AlreadyExists:
		a.Outcome = OutcomeExists
	case e.DryRun && code == codes.NotFound:
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
	if have.GetTopic() == deletedTopic {
		return OutcomeOrphaned, orphanDetail
	}
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

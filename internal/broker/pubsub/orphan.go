package pubsub

import (
	"context"
	"errors"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/outboxctl/outboxctl/internal/broker"
)

const (
	// deletedTopic is what Pub/Sub names as the topic of a subscription whose topic
	// was deleted. A new topic of the same name does not get it back.
	deletedTopic = "_deleted-topic_"
	orphanDetail = "has lost its topic: nothing that is published reaches it"
	// spareSuffix names the copy that keeps a subscription's settings while it is replaced.
	spareSuffix = "-outboxctl-replaces"
)

// state is what exists of a planned topic.
type state struct {
	exists bool
	// orphans are the topic's subscriptions that have lost it, and the copies that a run left which
	// did not finish; deadLetters is the same of the dead-letter topic.
	orphans     []*pubsubpb.Subscription
	deadLetters *pubsubpb.Subscription
}

func (s state) whole() bool { return s.exists && len(s.orphans) == 0 && s.deadLetters == nil }

// look asks for the topic and for its orphans: the planned subscription, and those with the planned
// dead-letter topic. Any other orphan may have been of any topic.
func (e *ensurer) look(ctx context.Context, t broker.PlannedTopic) (state, error) {
	if err := ValidateName(broker.KindTopic, t.Name); err != nil {
		return state{}, err
	}
	var found state
	err := e.call(ctx, func(ctx context.Context) error {
		_, err := e.client.pubsub.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: e.client.topicPath(t.Name)})
		return err
	})
	if err != nil && codeOf(err) != codes.NotFound {
		return state{}, err
	}
	found.exists = err == nil
	if err := e.list(ctx); err != nil {
		return state{}, err
	}
	for _, sub := range e.subscriptions {
		e.sort(&found, sub, t)
	}
	return found, nil
}

// list reads the project's subscriptions, once. An account that may not list them cannot replace
// them either.
func (e *ensurer) list(ctx context.Context) error {
	if e.subscriptions != nil {
		return nil
	}
	list := []*pubsubpb.Subscription{}
	err := e.call(ctx, func(ctx context.Context) error {
		it := e.client.pubsub.SubscriptionAdminClient.ListSubscriptions(ctx, &pubsubpb.ListSubscriptionsRequest{
			Project: "projects/" + e.client.cfg.Project, PageSize: 1000,
		})
		for {
			sub, err := it.Next()
			if errors.Is(err, iterator.Done) {
				return nil
			}
			if err != nil {
				return unless(codes.PermissionDenied, err)
			}
			list = append(list, sub)
		}
	})
	if err == nil {
		e.subscriptions = list
	}
	return err
}

// sort keeps a subscription that has lost the topic, or its dead-letter topic.
func (e *ensurer) sort(found *state, sub *pubsubpb.Subscription, t broker.PlannedTopic) {
	id, orphaned, spare := spared(sub), sub.GetTopic() == deletedTopic, strings.HasSuffix(sub.GetName(), spareSuffix)
	switch {
	case id == lastPart(t.DeadLetterSubscription) && (orphaned || spare):
		found.deadLetters = sub
	case orphaned && (id == lastPart(t.Subscription) || sub.GetDeadLetterPolicy().GetDeadLetterTopic() == e.client.topicPath(t.DeadLetterTopic)),
		spare && sub.GetTopic() == e.client.topicPath(t.Name):
		found.orphans = append(found.orphans, sub)
	}
}

// spared is the id of an orphan, also by its copy.
func spared(sub *pubsubpb.Subscription) string {
	return strings.TrimSuffix(lastPart(sub.GetName()), spareSuffix)
}

// replace deletes a subscription that has lost its topic and creates it again, with its settings.
// They are kept in a copy meanwhile, so that a run that is killed loses none: the next one finds
// the copy.
func (e *ensurer) replace(ctx context.Context, old *pubsubpb.Subscription, topic, deadLetters string) (ok bool, err error) {
	a := broker.Action{Kind: broker.KindSubscription, Name: spared(old), Topic: topic, Retention: old.GetMessageRetentionDuration().AsDuration()}
	want := e.renewed(old, topic, deadLetters)
	spare := proto.CloneOf(want)
	spare.Name += spareSuffix
	err = ValidateName(broker.KindSubscription, lastPart(spare.GetName()))
	admin := e.client.pubsub.SubscriptionAdminClient
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return e.create(ctx, spare) },
		func(ctx context.Context) error {
			have, err := admin.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: want.GetName()})
			if err == nil && have.GetTopic() == deletedTopic {
				err = admin.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: want.GetName()})
			}
			return unless(codes.NotFound, err)
		},
		func(ctx context.Context) error { return e.create(ctx, want) },
		func(ctx context.Context) error {
			return unless(codes.NotFound, admin.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: spare.GetName()}))
		},
	}
	for _, step := range steps {
		if err == nil {
			err = e.call(ctx, step)
		}
	}
	if err == nil {
		a.Outcome = broker.OutcomeReplaced
		a.Detail = "its topic had been deleted; permissions that were granted on it have to be granted again"
	}
	return e.record(a, err)
}

// replaceDeadLetters replaces the subscription of a dead-letter topic, unless it holds something:
// nobody could say which events these dead letters were.
func (e *ensurer) replaceDeadLetters(ctx context.Context, old *pubsubpb.Subscription, t broker.PlannedTopic) (ok bool, err error) {
	a := broker.Action{Kind: broker.KindSubscription, Name: spared(old), Topic: t.DeadLetterTopic, Outcome: broker.OutcomeFailed}
	if old.GetTopic() == deletedTopic {
		var held *pubsubpb.PullResponse
		err = e.call(ctx, func(ctx context.Context) (err error) {
			held, err = e.client.pubsub.SubscriptionAdminClient.Pull(ctx, &pubsubpb.PullRequest{Subscription: old.GetName(), MaxMessages: 1})
			return unless(codes.DeadlineExceeded, err)
		})
		if err != nil {
			a.Outcome = ""
			return e.record(a, err)
		}
		if len(held.GetReceivedMessages()) > 0 {
			a.Detail = "has lost its topic and holds dead letters: read them with outboxctl consume --subscription " + a.Name +
				", delete it, and run outboxctl topic ensure again"
			return e.record(a, nil)
		}
	}
	if ok, err = e.makeTopic(ctx, t.DeadLetterTopic); !ok || err != nil {
		return ok, err
	}
	return e.replace(ctx, old, t.DeadLetterTopic, "")
}

// create creates a subscription that may exist already.
func (e *ensurer) create(ctx context.Context, sub *pubsubpb.Subscription) error {
	_, err := e.client.pubsub.SubscriptionAdminClient.CreateSubscription(ctx, sub)
	return unless(codes.AlreadyExists, err)
}

// unless drops an error with that code.
func unless(code codes.Code, err error) error {
	if codeOf(err) == code {
		return nil
	}
	return err
}

// renewed is the request that creates an orphan again on its topic.
func (e *ensurer) renewed(old *pubsubpb.Subscription, topic, deadLetters string) *pubsubpb.Subscription {
	sub := proto.CloneOf(old)
	sub.Name = strings.TrimSuffix(sub.GetName(), spareSuffix)
	sub.Topic = e.client.topicPath(topic)
	sub.EnableMessageOrdering = sub.GetEnableMessageOrdering() || e.Ordered
	if policy := sub.GetDeadLetterPolicy(); strings.HasPrefix(policy.GetDeadLetterTopic(), "_") {
		policy.DeadLetterTopic = e.client.topicPath(deadLetters) // it was deleted as well
	}
	// What the service tells and does not take.
	sub.State, sub.Detached, sub.TopicMessageRetentionDuration, sub.AnalyticsHubSubscriptionInfo = 0, false, nil, nil
	return sub
}

package torture

import (
	"context"
	"fmt"
	"slices"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// prepareTopics makes the topics and leaves two subscriptions: the example's and the worker's.
func (w *world) prepareTopics(ctx context.Context) {
	ensure := shell{program: w.Program, env: w.Env(w.Postgres.URL(outboxDatabase)), rec: w.rec}
	if c := ensure.run(ctx, "", "", "topic ensure"); c.Exit != 0 {
		rig.Check(fmt.Errorf("create topics: %s", c.Stderr))
	}
	client := rig.Must(pubsub.Connect(ctx,
		pubsub.Config{Project: w.Broker.Project, Emulator: w.Broker.PubSub.Addr()}))
	defer func() { _ = client.Close() }() // nothing is left to send
	subscriptions := client.PubSub().SubscriptionAdminClient
	rig.Must(subscriptions.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name:               w.subscription(workerSub),
		Topic:              fmt.Sprintf("projects/%s/topics/%s", w.Broker.Project, domainTopic),
		AckDeadlineSeconds: 10,
	}))
	w.allowDeliveries(ctx, subscriptions)
	w.dropUnread(ctx, subscriptions)
}

// allowDeliveries raises the example's limit of deliveries to the most Pub/Sub takes. The fake
// counts the deliveries of all subscriptions together, so ten of a worker that is killed again and
// again would dead-letter what the example never had.
func (w *world) allowDeliveries(ctx context.Context, client *vkit.SubscriptionAdminClient) {
	sub := rig.Must(client.GetSubscription(ctx,
		&pubsubpb.GetSubscriptionRequest{Subscription: w.subscription(exampleSub)}))
	sub.DeadLetterPolicy.MaxDeliveryAttempts = 100
	rig.Must(client.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: sub, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"dead_letter_policy"}},
	}))
}

func (w *world) subscription(id string) string {
	return fmt.Sprintf("projects/%s/subscriptions/%s", w.Broker.Project, id)
}

// dropUnread removes the subscriptions that are not read. The fake walks over every message that
// waits, a hundred times a second and with all others waiting: after ten minutes of them it would
// be what is measured.
func (w *world) dropUnread(ctx context.Context, client *vkit.SubscriptionAdminClient) {
	var unread []string
	for sub, err := range client.ListSubscriptions(ctx,
		&pubsubpb.ListSubscriptionsRequest{Project: "projects/" + w.Broker.Project}).All() {
		rig.Check(err)
		if !slices.Contains([]string{w.subscription(exampleSub), w.subscription(workerSub)},
			sub.GetName()) {
			unread = append(unread, sub.GetName())
		}
	}
	for _, name := range unread {
		rig.Check(client.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: name}))
	}
}

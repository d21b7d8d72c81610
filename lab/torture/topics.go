package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"

	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/outboxctl/outboxctl/internal/pubsub"
)

func (w *world) prepareTopics(ctx context.Context) error {
	ensure := shell{program: w.cfg.Program, env: w.env(w.postgres.URL(outboxDatabase)), rec: w.rec}
	if c := ensure.run(ctx, "", "", "topic ensure"); c.Exit != 0 {
		return fmt.Errorf("create topics: %s", c.Stderr)
	}
	client, err := pubsub.Connect(ctx, pubsub.Config{Project: w.broker.Project, Emulator: w.broker.Addr()})
	if err != nil {
		return err
	}
	subscriptions := client.PubSub().SubscriptionAdminClient
	_, err = subscriptions.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name:               w.subscription(workerSub),
		Topic:              fmt.Sprintf("projects/%s/topics/%s", w.broker.Project, domainTopic),
		AckDeadlineSeconds: 10,
	})
	return errors.Join(err, w.allowDeliveries(ctx, subscriptions), w.dropUnread(ctx, subscriptions), client.Close())
}

// allowDeliveries raises the example's limit of deliveries to the most Pub/Sub takes. The fake counts the deliveries of all
// subscriptions together, so ten of a worker that is killed again and again would dead-letter what the example never had.
func (w *world) allowDeliveries(ctx context.Context, client *vkit.SubscriptionAdminClient) error {
	sub, err := client.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: w.subscription(exampleSub)})
	if err != nil {
		return err
	}
	sub.DeadLetterPolicy.MaxDeliveryAttempts = 100
	_, err = client.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: sub, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"dead_letter_policy"}},
	})
	return err
}

func (w *world) subscription(id string) string {
	return fmt.Sprintf("projects/%s/subscriptions/%s", w.broker.Project, id)
}

// dropUnread removes the subscriptions that are not read. The fake walks over every message that waits, a hundred times a
// second and with all others waiting: after ten minutes of them it would be what is measured.
func (w *world) dropUnread(ctx context.Context, client *vkit.SubscriptionAdminClient) error {
	project := "projects/" + w.broker.Project
	var unread []string
	for sub, err := range client.ListSubscriptions(ctx, &pubsubpb.ListSubscriptionsRequest{Project: project}).All() {
		if err != nil {
			return fmt.Errorf("list subscriptions: %w", err)
		}
		if !slices.Contains([]string{w.subscription(exampleSub), w.subscription(workerSub)}, sub.GetName()) {
			unread = append(unread, sub.GetName())
		}
	}
	for _, name := range unread {
		if err := client.DeleteSubscription(ctx, &pubsubpb.DeleteSubscriptionRequest{Subscription: name}); err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

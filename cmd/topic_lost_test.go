package cmd_test

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/cli"
)

// lostTopic is a rig whose topic domain is deleted, with its subscriptions: the planned one, and one of another consumer
// that has settings of its own.
type lostTopic struct {
	*publishRig
	client *pubsub.Client
	subs   []string
}

const lostName = "projects/outboxctl-dev/topics/the-domain"

func loseTopic(t *testing.T) *lostTopic {
	t.Helper()
	r := &lostTopic{publishRig: newPublishRig(t), subs: []string{"pf-domain-events-sub", "audit-sub"}}
	var err error
	r.client, err = pubsub.Connect(t.Context(), pubsub.Config{Project: r.pubsub.Project, Emulator: r.pubsub.Addr()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.client.Close() })
	code, _, stderr := r.run("topic", "ensure")
	require.Zero(t, code, stderr)
	_, err = r.client.PubSub().SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: r.path("audit-sub"), Topic: lostName, AckDeadlineSeconds: 33, MessageRetentionDuration: durationpb.New(3 * time.Hour),
		DeadLetterPolicy: &pubsubpb.DeadLetterPolicy{DeadLetterTopic: lostName + "-dead-letter", MaxDeliveryAttempts: 7},
		Labels:           map[string]string{"team": "audit"},
	})
	require.NoError(t, err)
	return r
}

func (r *lostTopic) path(sub string) string {
	return "projects/" + r.pubsub.Project + "/subscriptions/" + sub
}

func (r *lostTopic) deleteTopic() {
	r.t.Helper()
	require.NoError(r.t, r.client.PubSub().TopicAdminClient.DeleteTopic(r.t.Context(), &pubsubpb.DeleteTopicRequest{Topic: lostName}))
}

// deleteSubscriptions deletes those of the topic, as its step does.
func (r *lostTopic) deleteSubscriptions(names ...string) {
	r.t.Helper()
	for _, name := range names {
		require.NoError(r.t, r.client.PubSub().SubscriptionAdminClient.DeleteSubscription(r.t.Context(),
			&pubsubpb.DeleteSubscriptionRequest{Subscription: r.path(name)}))
	}
}

// received takes what a subscription holds, until it is n different events.
func (r *lostTopic) received(sub string, n int) map[string]bool {
	r.t.Helper()
	admin, seen := r.client.PubSub().SubscriptionAdminClient, map[string]bool{}
	eventually(r.t, sub+" receives all", func() bool {
		got, err := admin.Pull(r.t.Context(), &pubsubpb.PullRequest{Subscription: r.path(sub), MaxMessages: 1000})
		require.NoError(r.t, err)
		for _, m := range got.GetReceivedMessages() {
			seen[m.GetMessage().GetAttributes()["event_id"]] = true
			require.NoError(r.t, admin.Acknowledge(r.t.Context(), &pubsubpb.AcknowledgeRequest{Subscription: r.path(sub), AckIds: []string{m.GetAckId()}}))
		}
		return len(seen) >= n
	})
	return seen
}

func (r *lostTopic) requireReceived(ids []string) {
	r.t.Helper()
	for _, sub := range r.subs {
		got := r.received(sub, len(ids))
		for _, id := range ids {
			require.True(r.t, got[id], "%s lacks %s", sub, id)
		}
	}
}

// What waits for a topic that was deleted, and what was sent to one that somebody created by hand, reaches every
// subscription by the steps that topic ensure prints.
func TestTheStepsForALostTopicLoseNothing(t *testing.T) {
	t.Parallel()
	for _, byHand := range []bool{false, true} {
		t.Run(map[bool]string{false: "deleted", true: "created by hand"}[byHand], func(t *testing.T) {
			t.Parallel()
			r := loseTopic(t)
			p := r.start()
			r.deleteTopic()
			if byHand {
				_, err := r.client.PubSub().TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: lostName})
				require.NoError(t, err)
			}
			ids := r.emit(60, "order_created")
			if byHand {
				r.settled(60)
			} else {
				eventually(t, "the topic is refused", func() bool {
					return r.count(`SELECT count(*) FROM outbox_publishers WHERE state::text LIKE '%misconfigured%'`) == 1
				})
				_, stdout, _ := r.run("why", ids[0])
				require.Contains(t, stdout, "outboxctl topic ensure")
			}
			_, stdout, _ := r.run("doctor", "-o", "wide")
			require.Contains(t, stdout, "subscriptions audit-sub, pf-domain-events-sub: has lost its topic")

			for _, args := range [][]string{{"topic", "ensure", "--dry-run"}, {"topic", "ensure"}} {
				code, stdout, stderr := r.run(append(args, "-o", "wide")...)
				require.Equal(t, cli.ExitPrecondition, code, stderr)
				require.Contains(t, stdout, "subscription\taudit-sub\tthe-domain\torphaned")
				require.Contains(t, stdout, map[bool]string{false: "topic\tthe-domain\tthe-domain\tmissing", true: "topic\tthe-domain\tthe-domain\texists"}[byHand])
				require.Contains(t, stderr, "topic the-domain was left alone: a new one would not reach ")
				require.Contains(t, stderr, "hint: topics that have lost subscriptions were left alone; the steps above lose no event\n")
				if args[len(args)-1] == "ensure" {
					r.follow(stderr)
				}
			}
			r.requireReceived(ids)
			r.settled(60)
			require.Empty(t, r.do("pause list -o id"))
			code, _, stderr := r.run("topic", "ensure")
			require.Zero(t, code, stderr)
			p.end()
		})
	}
}

// follow runs the steps that a command printed.
func (r *lostTopic) follow(talk string) {
	r.t.Helper()
	ran := 0
	for line := range strings.Lines(talk) {
		step, is := strings.CutPrefix(strings.TrimSpace(line), "outboxctl ")
		deleted, deletes := strings.CutPrefix(strings.TrimSpace(line), "gcloud pubsub subscriptions delete ")
		switch {
		case deletes:
			r.deleteSubscriptions(strings.Fields(deleted)...)
		case is && strings.HasPrefix(line, "  "):
			step, _, _ = strings.Cut(step, " --note ")
			if !strings.HasPrefix(step, "topic ") {
				step += " --yes"
			}
			r.do(step)
		default:
			continue
		}
		ran++
	}
	require.Equal(r.t, 6, ran, talk)
}

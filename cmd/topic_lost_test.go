package cmd_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
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

// What waits for a topic that was deleted reaches every subscription after topic ensure, the advice of why and doctor.
func TestADeletedTopicLosesNothing(t *testing.T) {
	t.Parallel()
	r := loseTopic(t)
	p := r.start()
	r.deleteTopic()
	ids := r.emit(60, "order_created")
	eventually(t, "the topic is refused", func() bool {
		return r.count(`SELECT count(*) FROM outbox_publishers WHERE state::text LIKE '%misconfigured%'`) == 1
	})
	_, stdout, _ := r.run("why", ids[0])
	require.Contains(t, stdout, "outboxctl topic ensure")
	_, stdout, _ = r.run("doctor", "-o", "wide")
	require.Contains(t, stdout, "subscriptions audit-sub, pf-domain-events-sub: has lost its topic")
	_, stdout, stderr := r.run("topic", "ensure", "--dry-run", "-o", "wide")
	require.Contains(t, stdout, "subscription\taudit-sub\tthe-domain\torphaned", stderr)

	code, stdout, stderr := r.run("topic", "ensure", "-o", "wide")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "subscription\tpf-domain-events-sub\tthe-domain\treplaced")
	require.Contains(t, stdout, "subscription\taudit-sub\tthe-domain\treplaced")
	r.requireReceived(ids)
	r.settled(60)
	require.Empty(t, r.do("pause list -o id"))
	sub, err := r.client.PubSub().SubscriptionAdminClient.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: r.path("audit-sub")})
	require.NoError(t, err)
	require.EqualValues(t, 33, sub.GetAckDeadlineSeconds())
	require.Equal(t, 3*time.Hour, sub.GetMessageRetentionDuration().AsDuration())
	require.EqualValues(t, 7, sub.GetDeadLetterPolicy().GetMaxDeliveryAttempts())
	require.Equal(t, "audit", sub.GetLabels()["team"])
	p.signal(syscall.SIGTERM)
	p.wait()
}

// What was published while a subscription had no topic is named, and its command publishes it once more.
func TestWhatWentNowhereIsNamedAndPublishedOnceMore(t *testing.T) {
	t.Parallel()
	r := loseTopic(t)
	r.deleteTopic()
	_, err := r.client.PubSub().TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: lostName}) // by hand
	require.NoError(t, err)
	r.start()
	ids := r.emit(25, "order_created")
	r.emit(5, "payment_settled") // on another topic
	r.settled(30)

	code, _, stderr := r.run("topic", "ensure")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "25 events of topic domain")
	advice := regexp.MustCompile(`(?m)^  outboxctl (event republish --topic domain .*)$`).FindStringSubmatch(stderr)
	require.Len(t, advice, 2, stderr)
	require.Contains(t, r.do(advice[1]+" --yes -o json"), `"republished"`)
	r.requireReceived(ids)
	require.Len(t, r.pubsub.Stored(), 30+25, "nothing else is published once more")
}

// A topic ensure that is killed at any step loses nothing: publishing stays paused, why says what to do, and the next one
// finishes.
func TestAKilledTopicEnsureLosesNothing(t *testing.T) {
	t.Parallel()
	for call, before := range map[int]string{
		3: "the topic", 4: "the copy", 5: "the deletion", 6: "the subscription", 7: "the end of the copy", 9: "the second deletion",
	} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			r := loseTopic(t)
			p := r.start()
			r.deleteTopic()
			ids := r.emit(20, "order_created")
			ensure := r.killedAt(call)
			require.Equal(t, 128+int(syscall.SIGKILL), ensure.wait())
			require.Equal(t, "topic=domain", strings.TrimSpace(r.do("pause list -o id")))
			_, stdout, _ := r.run("why", ids[0])
			require.Contains(t, stdout, "outboxctl topic ensure")
			require.NotContains(t, stdout, "outboxctl resume")

			code, _, stderr := r.run("topic", "ensure")
			require.Zero(t, code, stderr)
			r.requireReceived(ids)
			r.settled(20)
			require.Empty(t, r.do("pause list -o id"))
			require.NotContains(t, r.do("topic list -o json"), "outboxctl-replaces", "no copy is left")
			p.signal(syscall.SIGTERM)
			p.wait()
		})
	}
}

// killedAt starts topic ensure and kills it before the nth change that it makes while the topic is paused.
func (r *lostTopic) killedAt(n int) *publisher {
	r.t.Helper()
	var mu sync.Mutex
	reached := make(chan struct{})
	changes := 0
	r.pubsub.OnCall(func(ctx context.Context, method string) error {
		mu.Lock()
		if !strings.HasPrefix(method, "Get") && !strings.HasPrefix(method, "List") && method != "Publish" &&
			r.count(`SELECT count(*) FROM outbox_pauses`) == 1 {
			if changes++; changes == n {
				close(reached)
			}
		}
		stop := changes >= n
		mu.Unlock()
		if !stop {
			return nil
		}
		<-ctx.Done() // of the process that is killed
		return ctx.Err()
	})
	ensure := startService(r.t, r.env(), "topic", "ensure")
	<-reached
	ensure.signal(syscall.SIGKILL)
	<-ensure.done
	r.pubsub.OnCall(nil)
	return ensure
}

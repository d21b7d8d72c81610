package kafka_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/kafka"
	"github.com/outboxctl/outboxctl/internal/outboxtest/certtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/kafkatest"
)

func connect(t testing.TB, c *kfake.Cluster, cfg kafka.Config) *kafka.Client {
	t.Helper()
	cfg.Brokers = strings.Join(c.ListenAddrs(), ",")
	client, err := kafka.Connect(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func messages(prefix string, n, size int) []dispatch.Message {
	msgs := make([]dispatch.Message, n)
	for i := range msgs {
		id := fmt.Sprintf("%s-%d", prefix, i)
		msgs[i] = dispatch.Message{EventID: id, Data: bytes.Repeat([]byte("x"), size), Attributes: map[string]string{"event_id": id}}
	}
	return msgs
}

func requireVerdict(t *testing.T, class dispatch.Class, code string, results []dispatch.Result) {
	t.Helper()
	require.Error(t, results[0].Err)
	require.Equal(t, class.String()+" "+code, dispatch.ClassOf(results[0].Err).String()+" "+dispatch.CodeOf(results[0].Err), results[0].Err)
}

func TestPublisherConformance(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, kafkatest.Broker(func(t *testing.T, c *kfake.Cluster, topics map[string]string) dispatch.Publisher {
		return connect(t, c, kafka.Config{Compression: "none"}).NewPublisher(topics)
	}))
}

// A batch that is too large for the topic blames none of its messages that fit.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(1, "t"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "5000"}))
	p := connect(t, c, kafka.Config{Compression: "none"}).NewPublisher(map[string]string{"t": "t", "missing": "missing", "bad": "a b"})
	requireVerdict(t, dispatch.Refused, "MESSAGE_TOO_LARGE", p.Publish(t.Context(), "t", messages("l", 1, 6000)))
	results := p.Publish(t.Context(), "t", messages("b", 4, 2000))
	for _, r := range results {
		require.NoError(t, r.Err)
	}
	require.Equal(t, "t/0/", results[0].MessageID[:4])
	requireVerdict(t, dispatch.Misconfigured, "UNKNOWN_TOPIC_OR_PARTITION", p.Publish(t.Context(), "missing", messages("m", 1, 10)))
	requireVerdict(t, dispatch.Misconfigured, "INVALID_TOPIC_EXCEPTION", p.Publish(t.Context(), "bad", messages("m", 1, 10)))
}

// Every compression arrives as what was sent.
func TestCompression(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(1, "none", "gzip", "snappy", "lz4", "zstd"))
	for _, how := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		msgs := messages(how, 50, 500)
		p := connect(t, c, kafka.Config{Compression: how}).NewPublisher(map[string]string{"t": how})
		for _, r := range p.Publish(t.Context(), "t", msgs) {
			require.NoError(t, r.Err)
		}
		require.Equal(t, msgs, kafkatest.Stored(t, c, how))
	}
	_, err := kafka.Connect(kafka.Config{Compression: "rar"})
	require.ErrorContains(t, err, "want one of none")
}

// An account proves itself, by a password that may change.
func TestCredentials(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "outbox", "secret"), kfake.Superuser("SCRAM-SHA-256", "outbox", "secret"))
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256"} {
		pass := "wrong"
		p := connect(t, c, kafka.Config{Mechanism: mechanism, Username: "outbox", Password: func() (string, error) { return pass, nil }}).NewPublisher(map[string]string{"t": "t"})
		require.Error(t, p.Publish(t.Context(), "t", messages("w", 1, 10))[0].Err) // the fake hangs up, without a word
		pass = "secret"
		require.NoError(t, p.Publish(t.Context(), "t", messages("r", 1, 10))[0].Err)
	}
}

func TestEnsureAndList(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(1, "there"))
	k := connect(t, c, kafka.Config{Partitions: 3, Replication: 1})
	plan := k.Plan(map[string]string{"a": "there", "b": "new"}, nil)
	outcomes := func(p broker.EnsureParams) (got []string) {
		p.Plan = plan
		actions, err := k.Ensure(t.Context(), p)
		require.NoError(t, err)
		for _, a := range actions {
			got = append(got, a.Kind+" "+a.Name+" "+string(a.Outcome))
		}
		return got
	}
	require.Equal(t, []string{"topic there exists", "topic new missing"}, outcomes(broker.EnsureParams{DryRun: true}))
	require.Equal(t, []string{"topic there exists", "topic new created"}, outcomes(broker.EnsureParams{}))
	require.Equal(t, []string{"topic there exists", "topic new exists"}, outcomes(broker.EnsureParams{}))
	topics, err := k.List(t.Context(), append(plan, k.Plan(map[string]string{"lost": "nowhere"}, nil)...))
	require.NoError(t, err)
	require.Equal(t, []string{broker.TopicReady, broker.TopicReady, broker.TopicMissing}, []string{topics[0].State, topics[1].State, topics[2].State})
	require.NotNil(t, c.PartitionInfo("new", 2))
	require.Nil(t, c.PartitionInfo("new", 3))
}

// A topic that was missing is there as soon as somebody has made it, and until then the error is Kafka's.
func TestTopicMadeAfterAll(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	k := connect(t, c, kafka.Config{Partitions: 2, Replication: 1})
	topics := map[string]string{"t": "new"}
	p := k.NewPublisher(topics)
	results := p.Publish(t.Context(), "t", messages("early", 1, 10))
	requireVerdict(t, dispatch.Misconfigured, "UNKNOWN_TOPIC_OR_PARTITION", results)
	require.ErrorIs(t, results[0].Err, dispatch.ErrUnsent)
	require.NotContains(t, results[0].Err.Error(), "no time was left")
	_, err := k.Ensure(t.Context(), broker.EnsureParams{Plan: k.Plan(topics, nil)})
	require.NoError(t, err)
	require.NoError(t, p.Publish(t.Context(), "t", messages("there", 1, 10))[0].Err)
}

// Keys keep their partition, and events without one are spread.
func TestPartitions(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(4, "t"))
	p := connect(t, c, kafka.Config{}).NewPublisher(map[string]string{"t": "t"})
	partitionOf := func(r dispatch.Result) string {
		require.NoError(t, r.Err)
		return strings.Split(r.MessageID, "/")[1]
	}
	of := map[string]string{}
	for range 3 {
		for _, key := range []string{"a", "b", "c", "d"} {
			msgs := messages(key, 2, 10)
			msgs[0].AggregateID, msgs[1].AggregateID = key, key
			for _, r := range p.Publish(t.Context(), "t", msgs) {
				if of[key] != "" {
					require.Equal(t, of[key], partitionOf(r))
				}
				of[key] = partitionOf(r)
			}
		}
	}
	free := map[string]bool{}
	for range 4 {
		free[partitionOf(p.Publish(t.Context(), "t", messages("free", 1, 10))[0])] = true
	}
	require.Len(t, free, 4)
}

func TestClusterAway(t *testing.T) {
	t.Parallel()
	k, err := kafka.Connect(kafka.Config{Brokers: "127.0.0.1:1"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Close() })
	requireVerdict(t, dispatch.Retryable, "connection", k.NewPublisher(map[string]string{"t": "t"}).Publish(t.Context(), "t", messages("m", 1, 10)))
	_, err = k.List(t.Context(), k.Plan(map[string]string{"t": "t"}, nil))
	require.Error(t, err)
	why, _ := k.Explain(err)
	require.Equal(t, "it does not answer", why)
}

// A cluster proves itself by a certificate of ours, or events wait.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, pair := certtest.Certificate(t)
	c := kafkatest.Start(t, kfake.SeedTopics(1, "t"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}))
	topics := map[string]string{"t": "t"}
	trusted := connect(t, c, kafka.Config{TLS: true, Files: broker.Files{CA: ca}}).NewPublisher(topics)
	require.NoError(t, trusted.Publish(t.Context(), "t", messages("a", 1, 10))[0].Err)
	strange := connect(t, c, kafka.Config{TLS: true}).NewPublisher(topics)
	requireVerdict(t, dispatch.Misconfigured, "tls", strange.Publish(t.Context(), "t", messages("b", 1, 10)))
	plain := connect(t, c, kafka.Config{}).NewPublisher(topics)
	require.Equal(t, dispatch.Retryable, dispatch.ClassOf(plain.Publish(t.Context(), "t", messages("c", 1, 10))[0].Err))
}

// A cluster that comes back is published to again, and holds nothing that was given up meanwhile.
func TestClusterRestarts(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.SeedTopics(1, "t"))
	p := connect(t, c, kafka.Config{}).NewPublisher(map[string]string{"t": "t"})
	require.NoError(t, p.Publish(t.Context(), "t", messages("before", 1, 10))[0].Err)
	var cut atomic.Bool
	cut.Store(true)
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, errors.New("the connection is cut"), cut.Load()
	})
	results := p.Publish(t.Context(), "t", messages("cut", 2, 10))
	requireVerdict(t, dispatch.Retryable, "connection", results)
	cut.Store(false)
	require.NoError(t, p.Publish(t.Context(), "t", messages("after", 1, 10))[0].Err)
	require.Len(t, kafkatest.Stored(t, c, "t"), 2)
}

// An account without rights, and a cluster that is full: the topic is to blame, or its disk, and no event.
func TestRightsAndFull(t *testing.T) {
	t.Parallel()
	topics := map[string]string{"t": "t"}
	guarded := kafkatest.Start(t, kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("PLAIN", "outbox", "secret"))
	p := connect(t, guarded, kafka.Config{Mechanism: "PLAIN", Username: "outbox", Password: func() (string, error) { return "secret", nil }}).NewPublisher(topics)
	requireVerdict(t, dispatch.Misconfigured, "TOPIC_AUTHORIZATION_FAILED", p.Publish(t.Context(), "t", messages("denied", 1, 10)))
	require.Equal(t, dispatch.Misconfigured, dispatch.ClassOf(p.Ready(t.Context(), "t")))
	for err, class := range map[*kerr.Error]dispatch.Class{
		kerr.KafkaStorageError: dispatch.Retryable, kerr.PolicyViolation: dispatch.Misconfigured, kerr.TopicAuthorizationFailed: dispatch.Misconfigured,
	} {
		c := kafkatest.Start(t, kfake.SeedTopics(1, "t"))
		kafkatest.Answer(c, err)
		requireVerdict(t, class, err.Message, connect(t, c, kafka.Config{}).NewPublisher(topics).Publish(t.Context(), "t", messages("full", 1, 10)))
		require.Empty(t, kafkatest.Stored(t, c, "t"))
	}
}

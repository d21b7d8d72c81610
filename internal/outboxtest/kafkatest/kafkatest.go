// Package kafkatest runs a fake Kafka cluster inside the test's process, and the conformance suite
// of publishers on it.
package kafkatest

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/gatetest"
)

// Start starts a cluster of one broker, which ends with the test.
func Start(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Stored is what the first partition of a topic holds, as the messages it was made of.
func Stored(t testing.TB, c *kfake.Cluster, topic string) (out []dispatch.Message) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	for end := endOf(t, client, topic); int64(len(out)) < end; {
		for _, r := range client.PollFetches(context.Background()).Records() {
			m := dispatch.Message{Data: r.Value, Attributes: map[string]string{}}
			for _, h := range r.Headers {
				m.Attributes[h.Key] = string(h.Value)
			}
			m.EventID = m.Attributes["event_id"]
			if key := string(r.Key); key != "a-1" { // which is the suite's aggregate
				m.OrderingKey = key
			}
			out = append(out, m)
		}
	}
	return out
}

func endOf(t testing.TB, client *kgo.Client, topic string) int64 {
	t.Helper()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1 // the end
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(context.Background(), client)
	require.NoError(t, err)
	return resp.Topics[0].Partitions[0].Offset
}

// gate stands before a cluster's Produce requests.
type gate struct {
	*gatetest.Gate[*kerr.Error]

	away atomic.Bool
}

// ids are the events of a batch, by their headers. It must not be compressed.
func ids(t testing.TB, raw []byte) (out []string) {
	var batch kmsg.RecordBatch
	require.NoError(t, batch.ReadFrom(raw))
	left := batch.Records
	for range batch.NumRecords {
		length, n := binary.Varint(left)
		var r kmsg.Record
		require.NoError(t, r.ReadFrom(left[:n+int(length)]))
		left = left[n+int(length):]
		for _, h := range r.Headers {
			if h.Key == "event_id" {
				out = append(out, string(h.Value))
			}
		}
	}
	return out
}

func (g *gate) control(t testing.TB, c *kfake.Cluster) {
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if g.away.Load() {
			return nil, errors.New("cut"), true
		}
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if g.away.Load() {
			return nil, errors.New("cut"), true
		}
		req := kreq.(*kmsg.ProduceRequest)
		fail, held := g.Judge(ids(t, req.Topics[0].Partitions[0].Records)...)
		if held != nil {
			c.SleepControl(held)
		}
		if fail == nil {
			return nil, nil, false
		}
		return refusal(req, fail.Code), nil, true
	})
}

// Answer makes the cluster answer every Produce request with an error.
func Answer(c *kfake.Cluster, err *kerr.Error) {
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return refusal(req.(*kmsg.ProduceRequest), err.Code), nil, true
	})
}

// refusal answers a Produce request of one partition with a code.
func refusal(req *kmsg.ProduceRequest, code int16) kmsg.Response {
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition, p.ErrorCode = req.Topics[0].Partitions[0].Partition, code
	rt := kmsg.NewProduceResponseTopic()
	rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
	rt.Partitions = append(rt.Partitions, p)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	resp.Topics = append(resp.Topics, rt)
	return resp
}

// Broker is a cluster with a publisher that does not compress, for a test.
func Broker(
	open func(t *testing.T, c *kfake.Cluster, topics map[string]string) dispatch.Publisher,
) func(*testing.T) dispatchtest.Broker {
	return func(t *testing.T) dispatchtest.Broker {
		t.Helper()
		c := Start(t, kfake.SeedTopics(1, "orders-v1"))
		g := &gate{Gate: gatetest.New(map[dispatch.Class]*kerr.Error{
			dispatch.Retryable: kerr.NotEnoughReplicas, dispatch.Refused: kerr.InvalidRecord,
			dispatch.Misconfigured: kerr.TopicAuthorizationFailed,
		})}
		g.control(t, c)
		return g.Broker(dispatchtest.Broker{
			Publisher: open(t, c, map[string]string{"orders": "orders-v1", "missing": "missing-v1"}),
			Topic:     "orders", MissingTopic: "missing",
			Stored: func() []dispatch.Message { return Stored(t, c, "orders-v1") },
			Away: func() func() {
				g.away.Store(true)
				return func() { g.away.Store(false) }
			},
		})
	}
}

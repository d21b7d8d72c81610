package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
)

const (
	// batchBytes is where a batch with several messages ends: below what a topic takes by default.
	batchBytes = 900 << 10
	// largestMessage is the limit as long as the topic has not told its own.
	largestMessage = 64 << 20
	// reserve is kept of a batch for its framing, the key and the framing of headers.
	reserve = 2 << 10
)

// NewPublisher publishes to the physical topics that stand for logical ones, by Produce requests of
// its own.
func (c *Client) NewPublisher(topics map[string]string) dispatch.Publisher {
	topics = maps.Clone(topics)
	return broker.Publisher{
		Topics: topics, Noun: "Kafka topic", CheckName: CheckName, Timeout: c.cfg.PublishTimeout,
		Missing: kerr.UnknownTopicOrPartition.Message, Invalid: kerr.InvalidTopicException.Message,
		Send: c.publish, Ask: c.ask, Failure: failure,
		Takes: func(topic string) wire.Limits { return c.takes(topics, topic) },
	}
}

func (c *Client) publish(
	ctx, begin context.Context, name string, msgs []dispatch.Message,
) []dispatch.Result {
	meta, err := c.metadata(ctx, name, metadataAge)
	if err != nil {
		return broker.All(len(msgs), broker.Unsent(failure(err)))
	}
	send := func(partition int32) func(context.Context, []dispatch.Message) []dispatch.Result {
		return func(ctx context.Context, msgs []dispatch.Message) []dispatch.Result {
			if err := begin.Err(); err != nil {
				return broker.All(len(msgs), dispatch.Unsent(err))
			}
			return c.produce(ctx, meta, partition, msgs)
		}
	}
	if msgs[0].OrderingKey != "" {
		return dispatch.InOrder(ctx, msgs, fits, send(c.partition(&msgs[0], meta)))
	}
	results := make([]dispatch.Result, len(msgs))
	var requests sync.WaitGroup
	for partition, at := range c.byPartition(msgs, meta) {
		for len(at) > 0 {
			part := make([]dispatch.Message, len(at))
			for j, i := range at {
				part[j] = msgs[i]
			}
			n := fits(part)
			mine := at[:n]
			at = at[n:]
			requests.Go(func() {
				for j, r := range dispatch.Isolate(ctx, part[:n], send(partition)) {
					results[mine[j]] = r
				}
			})
		}
	}
	requests.Wait()
	return dispatch.Proven(results)
}

// fits is how many of the messages one batch holds.
func fits(msgs []dispatch.Message) int {
	size := 0
	for i := range msgs {
		if size += recordBytes(&msgs[i]); size > batchBytes && i > 0 {
			return i
		}
	}
	return len(msgs)
}

// byPartition sorts messages by the partition of their key; those without one go to one partition,
// another with each call.
func (c *Client) byPartition(msgs []dispatch.Message, meta *kmsg.MetadataResponseTopic) map[int32][]int {
	c.mu.Lock()
	c.turn++
	free := int32(c.turn % len(meta.Partitions))
	c.mu.Unlock()
	by := map[int32][]int{}
	for i := range msgs {
		partition := free
		if keyOf(&msgs[i]) != nil {
			partition = c.partition(&msgs[i], meta)
		}
		by[partition] = append(by[partition], i)
	}
	return by
}

// partition is the one of a key, as Kafka's own clients choose it.
func (c *Client) partition(m *dispatch.Message, meta *kmsg.MetadataResponseTopic) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int32(c.partitioner.Partition(&kgo.Record{Key: keyOf(m)}, len(meta.Partitions)))
}

// produce is one Produce request.
func (c *Client) produce(ctx context.Context, meta *kmsg.MetadataResponseTopic, partition int32, msgs []dispatch.Message) []dispatch.Result {
	leader := leaderOf(meta, partition)
	if leader < 0 {
		c.kgo.ForceMetadataRefresh()
		return broker.All(len(msgs), failure(kerr.LeaderNotAvailable))
	}
	resp, err := c.kgo.Broker(int(leader)).Request(ctx, c.request(ctx, meta, partition, msgs))
	if err != nil {
		c.kgo.ForceMetadataRefresh()
		return broker.All(len(msgs), failure(err))
	}
	answer, ok := onePartition(resp)
	if !ok {
		return broker.All(len(msgs), failure(errors.New("the answer names no partition")))
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		c.kgo.ForceMetadataRefresh()
		if answer.ErrorMessage != nil {
			err = fmt.Errorf("%w: %s", err, *answer.ErrorMessage)
		}
		return broker.All(len(msgs), failure(err))
	}
	results := make([]dispatch.Result, len(msgs))
	for i := range results {
		results[i].MessageID = *meta.Topic + "/" + strconv.Itoa(int(partition)) + "/" + strconv.FormatInt(answer.BaseOffset+int64(i), 10)
	}
	return results
}

func leaderOf(meta *kmsg.MetadataResponseTopic, partition int32) int32 {
	for _, p := range meta.Partitions {
		if p.Partition == partition {
			return p.Leader
		}
	}
	return -1
}

func (c *Client) request(ctx context.Context, meta *kmsg.MetadataResponseTopic, partition int32, msgs []dispatch.Message) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	if c.cfg.LeaderOnly {
		req.Acks = 1
	}
	end, _ := ctx.Deadline()
	req.TimeoutMillis = int32(max(1, time.Until(end).Milliseconds()))
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, c.encode(msgs, time.Now())
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = *meta.Topic, meta.TopicID
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func onePartition(resp kmsg.Response) (answer kmsg.ProduceResponseTopicPartition, ok bool) {
	produced, ok := resp.(*kmsg.ProduceResponse)
	if !ok || len(produced.Topics) != 1 || len(produced.Topics[0].Partitions) != 1 {
		return answer, false
	}
	return produced.Topics[0].Partitions[0], true
}

// ask asks for a topic's partitions, and for what they take as long as that is not known. An
// account that may not ask for the latter is a good one.
func (c *Client) ask(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if _, err := c.metadata(ctx, name, 0); err != nil {
		return err
	}
	c.learn(ctx, name)
	return nil
}

// takes is what a logical topic takes, or the most that one of them takes.
func (c *Client) takes(topics map[string]string, topic string) wire.Limits {
	names := []string{topics[topic]}
	if topic == "" {
		names = slices.AppendSeq(names[:0], maps.Values(topics))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	largest := 0
	for _, name := range names {
		largest = max(largest, cmp.Or(c.maxBytes[name], largestMessage))
	}
	return limits(cmp.Or(largest, largestMessage))
}

// limits of a topic that takes so many bytes.
func limits(largest int) wire.Limits {
	return wire.Limits{
		MessageBytes: largest - reserve, Attributes: 100, AttributeNameBytes: 256, AttributeValueBytes: 32 << 10, CloudEventsPrefix: "ce_",
	}
}

// keyOf is the record's key: the ordering key, or without one the aggregate's id, so that its
// events are in one partition.
func keyOf(m *dispatch.Message) []byte {
	if key := cmp.Or(m.OrderingKey, m.AggregateID); key != "" {
		return []byte(key)
	}
	return nil
}

// encode makes one batch of messages.
func (c *Client) encode(msgs []dispatch.Message, now time.Time) []byte {
	var records []byte
	for i := range msgs {
		records = appendRecord(records, i, &msgs[i])
	}
	packed, codec := records, kgo.CodecNone
	if c.compressor != nil { // the library has none for no compression
		packed, codec = c.compressor.Compress(new(bytes.Buffer), records)
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(codec), LastOffsetDelta: int32(len(msgs) - 1),
		FirstTimestamp: now.UnixMilli(), MaxTimestamp: now.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(msgs)), Records: packed,
	}
	// The length counts what follows it, the checksum what follows that.
	const behindLength, behindChecksum = 12, 21
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - behindLength)
	batch.CRC = int32(crc32.Checksum(raw[behindChecksum:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(raw[:0])
}

func appendRecord(to []byte, i int, m *dispatch.Message) []byte {
	record := kmsg.Record{OffsetDelta: int32(i), Key: keyOf(m), Value: m.Data, Headers: make([]kmsg.Header, 0, len(m.Attributes))}
	for name, value := range m.Attributes {
		record.Headers = append(record.Headers, kmsg.Header{Key: name, Value: []byte(value)})
	}
	slices.SortFunc(record.Headers, func(a, b kmsg.Header) int { return cmp.Compare(a.Key, b.Key) })
	// Length, which is 0 and one byte long here, counts the rest.
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	return record.AppendTo(to)
}

// recordBytes is at least what a message takes in a batch.
func recordBytes(m *dispatch.Message) int {
	const each, header = 64, 12
	return m.Size() + len(m.AggregateID) + header*len(m.Attributes) + each
}

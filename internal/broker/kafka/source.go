package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// source is a consumer group on a topic. Records of a partition are handled one after the other,
// and only what is done is committed.
type source struct {
	broker.Subscription
	client       *Client
	group, topic string
	room         chan struct{}
}

// Source implements broker.Broker. The subscription is GROUP@TOPIC.
func (c *Client) Source(ctx context.Context, p broker.SourceParams) (broker.Source, error) {
	group, topic, _ := strings.Cut(p.Subscription, "@")
	exists, err := c.exists(ctx, topic)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up topic %s: %w", topic, err)
	case !exists:
		return nil, fmt.Errorf("topic %s: %w", topic, broker.ErrNoSubscription)
	}
	return &source{
		client: c, group: group, topic: topic, room: make(chan struct{}, max(1, p.Concurrency)),
		// A partition is read in order, and what fails comes again for ever.
		Subscription: broker.Subscription{Failure: failure, Promise: broker.About{Ordered: true}},
	}, nil
}

// Receive implements broker.Source.
func (s *source) Receive(ctx context.Context, f func(broker.Delivery)) error {
	r := &reading{source: s, f: f, ends: map[int32]func(){}}
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, s.client.opts...),
		kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsRevoked(r.revoked), kgo.OnPartitionsLost(r.revoked),
	)...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	r.client = client
	defer r.stop()
	for {
		fetches := client.PollRecords(ctx, 100*cap(s.room))
		if ctx.Err() != nil {
			return nil
		}
		if errs := fetches.Errors(); len(errs) > 0 && fetches.NumRecords() == 0 {
			client.AllowRebalance()
			return errs[0].Err
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				r.begin(ctx, p.Partition, p.Records)
			}
		})
		client.AllowRebalance()
	}
}

// reading is one Receive.
type reading struct {
	source *source
	client *kgo.Client
	f      func(broker.Delivery)

	mu   sync.Mutex
	ends map[int32]func() // ends the handling of a partition, and waits for it
}

// begin handles records of a partition. It is not asked for more before they are done.
func (r *reading) begin(ctx context.Context, partition int32, records []*kgo.Record) {
	this := map[string][]int32{r.source.topic: {partition}}
	r.client.PauseFetchPartitions(this)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	r.mu.Lock()
	r.ends[partition] = func() { cancel(); <-done }
	r.mu.Unlock()
	go func() {
		defer close(done)
		defer cancel()
		for _, record := range records {
			if !r.handle(ctx, record) {
				return
			}
		}
		r.client.ResumeFetchPartitions(this)
	}()
}

// handle delivers a record until it is acknowledged, and commits it. It reports false when ctx
// ended before.
func (r *reading) handle(ctx context.Context, record *kgo.Record) bool {
	for attempt := 1; ; attempt++ {
		select {
		case r.source.room <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		verdict := make(verdict, 1)
		r.f(delivery(record, attempt, verdict))
		<-r.source.room // a record that is held keeps its partition back, not the others
		acknowledged := <-verdict
		if acknowledged {
			// What is not committed comes again, and the guard knows it.
			commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
			_ = r.client.CommitRecords(commit, record)
			cancel()
			return ctx.Err() == nil
		}
		if wait.For(ctx, broker.Pause(attempt)) != nil {
			return false
		}
	}
}

// revoked gives partitions back that belong to another consumer now.
func (r *reading) revoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	for _, partition := range lost[r.source.topic] {
		r.end(partition)
	}
}

func (r *reading) end(partition int32) {
	r.mu.Lock()
	end := r.ends[partition]
	delete(r.ends, partition)
	r.mu.Unlock()
	if end != nil {
		end()
	}
}

func (r *reading) stop() {
	r.mu.Lock()
	all := slices.Collect(maps.Keys(r.ends))
	r.mu.Unlock()
	for _, partition := range all {
		r.end(partition)
	}
}

// verdict takes one: whether the message is acknowledged.
type verdict chan bool

// Ack implements broker.Message.
func (v verdict) Ack() { v.say(true) }

// Nack implements broker.Message.
func (v verdict) Nack() { v.say(false) }

func (v verdict) say(acknowledged bool) {
	select {
	case v <- acknowledged:
	default: // the first one counts
	}
}

func delivery(record *kgo.Record, attempt int, m broker.Message) broker.Delivery {
	d := broker.Delivery{
		Message: m, Body: record.Value, Attempt: attempt, Attributes: make(map[string]string, len(record.Headers)),
		ID: record.Topic + "/" + strconv.Itoa(int(record.Partition)) + "/" + strconv.FormatInt(record.Offset, 10),
	}
	for _, h := range record.Headers {
		d.Attributes[h.Key] = string(h.Value)
	}
	// Only an event with an ordering key has a number; the key of another record is its aggregate's
	// id.
	if _, ordered := d.Attributes[wire.AttrEventSeq]; ordered {
		d.OrderingKey = string(record.Key)
	}
	return d
}

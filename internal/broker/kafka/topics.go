package kafka

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// Retention is how long a topic keeps a record by default.
const Retention = 7 * 24 * time.Hour

const groupSuffix = "-sub"

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// CheckName refuses the name of a topic, or of a consumer group (broker.KindSubscription), that a
// broker would refuse.
func CheckName(kind, name string) error {
	switch {
	case kind == broker.KindSubscription:
		group, topic, found := strings.Cut(name, "@")
		if !found || group == "" || len(name) > 500 {
			return fmt.Errorf("Kafka consumer group %q: want GROUP@TOPIC", name) //nolint:staticcheck // a name
		}
		return CheckName(broker.KindTopic, topic)
	case !topicName.MatchString(name), name == ".", name == "..":
		return fmt.Errorf("Kafka topic %q: want up to 249 letters, digits or ._-", name) //nolint:staticcheck // a name
	}
	return nil
}

// Plan implements broker.Broker. A consumer group comes into being by reading.
func (c *Client) Plan(topics, subscriptions map[string]string) []broker.PlannedTopic {
	return broker.Plan(topics, subscriptions, func(physical string) broker.PlannedTopic {
		return broker.PlannedTopic{Name: physical, Subscription: physical + groupSuffix + "@" + physical}
	})
}

// metadata asks for the partitions of a topic, unless they were told at most so long ago: that
// there is no such topic is asked each time.
func (c *Client) metadata(ctx context.Context, topic string, age time.Duration) (*kmsg.MetadataResponseTopic, error) {
	if found, err := c.askMetadata(ctx, topic, age); err == nil || age == 0 || !errors.As(err, new(*kerr.Error)) {
		return found, err
	}
	return c.askMetadata(ctx, topic, 0)
}

func (c *Client) askMetadata(ctx context.Context, topic string, age time.Duration) (*kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := (*kmsg.MetadataResponse)(nil), error(nil)
	if age > 0 {
		resp, err = c.kgo.RequestCachedMetadata(ctx, req, age)
	} else {
		resp, err = req.RequestWith(ctx, c.kgo)
	}
	switch {
	case err != nil:
		return nil, err
	case len(resp.Topics) != 1 || resp.Topics[0].Topic == nil:
		return nil, kerr.UnknownTopicOrPartition
	case resp.Topics[0].ErrorCode != 0:
		return nil, kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	case len(resp.Topics[0].Partitions) == 0:
		return nil, kerr.LeaderNotAvailable
	}
	return &resp.Topics[0], nil
}

// learn asks a topic what it takes in a batch, once.
func (c *Client) learn(ctx context.Context, topic string) {
	const config = "max.message.bytes"
	c.mu.Lock()
	known := c.maxBytes[topic] > 0
	c.mu.Unlock()
	if known {
		return
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{config}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, c.kgo)
	if err != nil || len(resp.Resources) != 1 {
		return
	}
	for _, found := range resp.Resources[0].Configs {
		if found.Name != config || found.Value == nil {
			continue
		}
		if n, err := strconv.Atoi(*found.Value); err == nil && n > reserve {
			c.mu.Lock()
			c.maxBytes[topic] = n
			c.mu.Unlock()
		}
	}
}

// exists asks for a topic.
func (c *Client) exists(ctx context.Context, topic string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.metadata(ctx, topic, 0)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return false, nil
	}
	return err == nil, err
}

// Backlog implements broker.Measurer: what a group has not committed, of GROUP@TOPIC.
func (c *Client) Backlog(ctx context.Context, subscription string) (waiting int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	group, topic, _ := strings.Cut(subscription, "@")
	meta, err := c.metadata(ctx, topic, 0)
	if err != nil {
		return 0, err
	}
	fetch, first, last := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrListOffsetsRequest()
	fetch.Group = group
	wanted := kmsg.NewOffsetFetchRequestTopic()
	wanted.Topic = topic
	ends := [2]kmsg.ListOffsetsRequestTopic{kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopic()}
	for _, p := range meta.Partitions {
		wanted.Partitions = append(wanted.Partitions, p.Partition)
		for i, at := range []int64{-2, -1} { // the first there is, and the one behind the last
			end := kmsg.NewListOffsetsRequestTopicPartition()
			end.Partition, end.Timestamp = p.Partition, at
			ends[i].Topic = topic
			ends[i].Partitions = append(ends[i].Partitions, end)
		}
	}
	fetch.Topics, first.Topics, last.Topics = append(fetch.Topics, wanted), append(first.Topics, ends[0]), append(last.Topics, ends[1])
	committed, err := fetch.RequestWith(ctx, c.kgo)
	if err != nil {
		return 0, err
	}
	done := map[int32]int64{}
	for _, t := range committed.Topics {
		for _, p := range t.Partitions {
			done[p.Partition] = p.Offset // -1: nothing yet
		}
	}
	for sign, req := range map[int64]*kmsg.ListOffsetsRequest{-1: first, 1: last} {
		answer, err := req.RequestWith(ctx, c.kgo)
		if err != nil {
			return 0, err
		}
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				at := p.Offset
				if sign < 0 {
					at = max(at, done[p.Partition])
				}
				waiting += sign * at
			}
		}
	}
	return waiting, nil
}

// List implements broker.Broker. Which groups read a topic is not told: nothing is lost without
// one.
func (c *Client) List(ctx context.Context, plan []broker.PlannedTopic) ([]broker.Topic, error) {
	return broker.List(plan, failure, func(t *broker.Topic) (bool, error) {
		return c.exists(ctx, t.Name)
	})
}

// Ensure implements broker.Broker. It makes topics only: a group comes into being by reading.
func (c *Client) Ensure(ctx context.Context, p broker.EnsureParams) ([]broker.Action, error) {
	return broker.Ensure(ctx, p, func(t broker.PlannedTopic) []broker.Step {
		return []broker.Step{{
			Kind: broker.KindTopic, Name: t.Name,
			Exists: func(ctx context.Context) (bool, error) { return c.exists(ctx, t.Name) },
			Make:   func(ctx context.Context) error { return c.create(ctx, t.Name) },
		}}
	}, func(err error) (broker.Outcome, string, bool) {
		if errors.Is(err, kerr.TopicAlreadyExists) { // another run was faster
			return broker.OutcomeExists, "", true
		}
		return broker.OutcomeFailed, explain(err), errors.As(err, new(*kerr.Error))
	})
}

func (c *Client) create(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, -1, -1
	if c.cfg.Partitions > 0 {
		t.NumPartitions = int32(c.cfg.Partitions)
	}
	if c.cfg.Replication > 0 {
		t.ReplicationFactor = int16(c.cfg.Replication)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.kgo)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return errors.New("the answer names no topic")
	}
	err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	if err != nil && resp.Topics[0].ErrorMessage != nil {
		err = fmt.Errorf("%w: %s", err, *resp.Topics[0].ErrorMessage)
	}
	return err
}

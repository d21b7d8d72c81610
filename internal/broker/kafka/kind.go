package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// The names of the settings.
const (
	setBrokers      = "kafka.brokers"
	setMechanism    = "kafka.sasl_mechanism"
	setUsername     = "kafka.username"
	setPassword     = "kafka.password"
	setTLS          = "kafka.tls"
	setCompression  = "kafka.compression"
	setAcks         = "kafka.acks"
	setPartitions   = "kafka.partitions"
	setReplication  = "kafka.replication"
	setSubscription = "kafka.subscription"
)

// Kind is Apache Kafka.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "kafka", Title: "Kafka", Settings: settings(), Subscription: setSubscription,
		Limits: limits(largestMessage), Retention: Retention, CheckName: CheckName, Open: open,
		Check: func(setting func(string) string) map[string]error {
			problems := broker.CheckTogether("kafka", setting)
			if setting(setUsername) != "" && setting(setMechanism) == "" {
				problems[setMechanism] = errors.New("the user name needs it: " + strings.Join(mechanisms(), ", "))
			}
			return problems
		},
		Addr: func(setting func(string) string) string {
			first, _, _ := strings.Cut(setting(setBrokers), ",")
			return first
		},
		Remedy: "check kafka.brokers, the account and TLS",
		Rights: "check the account's ACLs: Write and Describe on topics publish, Create creates them, Read on topic and group consumes",
	}
}

func settings() []broker.Setting {
	return slices.Concat([]broker.Setting{
		{
			Name: setBrokers, Help: "brokers of Kafka to begin with, with commas between them", Kind: "host:port", Default: DefaultBrokers,
			Server: true, Env: []string{"KAFKA_BROKERS"}, Check: CheckBrokers,
		},
		{Name: setMechanism, Help: "SASL mechanism: " + strings.Join(mechanisms(), ", "), Kind: "name", Check: oneOf(mechanisms())},
	}, broker.AccountSettings("kafka"), []broker.Setting{
		{Name: setTLS, Help: "encrypt the connections", Kind: broker.KindBool, Default: "false"},
	}, broker.TLSSettings("kafka"), []broker.Setting{
		{Name: setCompression, Help: "compression of batches: " + strings.Join(compressions(), ", "), Kind: "name", Default: "zstd", Check: oneOf(compressions())},
		{Name: setAcks, Help: "who must have stored an event: all replicas in sync (all) or the leader", Kind: "name", Default: "all", Check: oneOf([]string{"all", "leader"})},
		{Name: setPartitions, Help: "partitions of the topics that topic ensure creates (default the cluster's)", Kind: broker.KindNumber},
		{Name: setReplication, Help: "replicas of the topics that topic ensure creates (default the cluster's)", Kind: broker.KindNumber},
		broker.SubscriptionSetting(setSubscription, "consumer group and topic that consume reads, as GROUP@TOPIC", "pf-domain-events-sub@pf-domain-events", CheckName),
	})
}

func oneOf(known []string) func(string) error {
	return func(raw string) error {
		if !slices.Contains(known, raw) {
			return errors.New("want one of " + strings.Join(known, ", "))
		}
		return nil
	}
}

func open(_ context.Context, p broker.Params) (broker.Broker, error) {
	return Connect(Config{
		Brokers: p.Setting(setBrokers), Mechanism: p.Setting(setMechanism), Username: p.Setting(setUsername),
		Password: func() (string, error) { return p.Secret(setPassword) }, TLS: p.Bool(setTLS), Files: p.FilesOf("kafka"),
		Compression: p.Setting(setCompression), LeaderOnly: p.Setting(setAcks) == "leader",
		Partitions: p.Number(setPartitions), Replication: p.Number(setReplication), PublishTimeout: p.PublishTimeout, Name: p.UserAgent,
	})
}

var _ broker.Broker = (*Client)(nil)

// String implements broker.Broker.
func (c *Client) String() string { return fmt.Sprintf("Kafka (%s)", c.cfg.Brokers) }

// Explain implements broker.Broker.
func (c *Client) Explain(err error) (why, advice string) {
	return explain(err), "outboxctl config view shows where kafka.brokers and the account come from"
}

// Findings implements broker.Broker.
func (c *Client) Findings(bool) []broker.Finding {
	if !c.cfg.LeaderOnly {
		return nil
	}
	return []broker.Finding{{
		Warn: true, Message: "only the leader of a partition has stored what is marked as published: it is lost with the leader",
		Remedy: "set kafka.acks to all",
	}}
}

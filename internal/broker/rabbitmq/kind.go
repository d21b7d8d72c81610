package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// The names of the settings.
const (
	setURL          = "rabbitmq.url"
	setUsername     = "rabbitmq.username"
	setPassword     = "rabbitmq.password"
	setExchange     = "rabbitmq.exchange"
	setRoutingKey   = "rabbitmq.routing_key"
	setSubscription = "rabbitmq.subscription"
)

// Kind is RabbitMQ.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "rabbitmq", Title: "RabbitMQ", Settings: settings(), Subscription: setSubscription,
		Limits: limits(defaultFrame), Retention: Retention, CheckName: CheckName, Open: open,
		Check: func(setting func(string) string) map[string]error { return broker.CheckTogether("rabbitmq", setting) },
		Addr: func(setting func(string) string) string {
			u, err := url.Parse(setting(setURL))
			switch {
			case err != nil || u.Host == "":
				return ""
			case u.Port() != "":
				return u.Host
			case u.Scheme == "amqps":
				return u.Host + ":5671"
			}
			return u.Host + ":5672"
		},
		Remedy: "check rabbitmq.url (its path is the virtual host) and the account",
		Rights: "check the account's permissions: write publishes, configure creates exchanges and queues, read consumes",
	}
}

func settings() []broker.Setting {
	return slices.Concat([]broker.Setting{
		{
			Name: setURL, Help: "RabbitMQ connection string (amqp:// or amqps://), whose path is the virtual host", Kind: "url", Default: DefaultURL,
			Secret: true, Server: true, Env: []string{"AMQP_URL"}, Check: CheckURL,
		},
	}, broker.AccountSettings("rabbitmq"), broker.TLSSettings("rabbitmq"), []broker.Setting{
		{
			Name: setExchange, Help: "exchange that events are published to; {topic} is the physical topic", Kind: "template",
			Default: DefaultExchange, Check: placeholders("{topic}"),
		},
		{
			Name: setRoutingKey, Help: "routing key; {topic}, {event_type}, {namespace} and {aggregate_type} are the event's", Kind: "template",
			Default: DefaultRoutingKey, Check: placeholders("{topic}", "{event_type}", "{namespace}", "{aggregate_type}"),
		},
		broker.SubscriptionSetting(setSubscription, "queue of the domain topic", "pf-domain-events-sub", CheckName),
	})
}

// placeholders refuses a template with others than these.
func placeholders(known ...string) func(string) error {
	return func(raw string) error {
		left := raw
		for _, name := range known {
			left = strings.ReplaceAll(left, name, "")
		}
		if strings.ContainsAny(left, "{}") {
			return errors.New("want no other placeholders than " + strings.Join(known, ", "))
		}
		return nil
	}
}

func open(_ context.Context, p broker.Params) (broker.Broker, error) {
	return Connect(Config{
		URL: p.Setting(setURL), Username: p.Setting(setUsername),
		Password: func() (string, error) { return p.Secret(setPassword) }, Files: p.FilesOf("rabbitmq"),
		Exchange: p.Setting(setExchange), RoutingKey: p.Setting(setRoutingKey),
		PublishTimeout: p.PublishTimeout, Name: p.UserAgent,
	})
}

var _ broker.Broker = (*Client)(nil)

// String implements broker.Broker.
func (c *Client) String() string { return fmt.Sprintf("RabbitMQ (%s)", c.server()) }

// Explain implements broker.Broker.
func (c *Client) Explain(err error) (why, advice string) {
	return explain(err), "outboxctl config view shows where rabbitmq.url and the account come from"
}

// CheckName refuses the name of a topic, which is that of an exchange and the beginning of routing
// keys, or of a queue (broker.KindSubscription) that the broker would refuse.
func CheckName(kind, name string) error {
	what := "exchange"
	if kind == broker.KindSubscription {
		what = "queue"
	}
	switch {
	case name == "" || len(name) > nameBytes || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("RabbitMQ %s %q: want 1 to 255 bytes of text", what, name)
	case strings.HasPrefix(name, "amq."):
		return fmt.Errorf("RabbitMQ %s %q: names that begin with amq. belong to the broker", what, name)
	case kind == broker.KindTopic && strings.ContainsAny(name, "*#{}"):
		return fmt.Errorf("RabbitMQ exchange %q: want a name without *, # and braces", name)
	}
	return nil
}

// bindingKey takes every routing key of a topic.
func bindingKey(template, topic string) string {
	key := strings.ReplaceAll(template, "{topic}", topic)
	words := strings.Split(key, ".")
	for i, word := range words {
		switch {
		case !strings.Contains(word, "{"):
		case strings.HasPrefix(word, "{") && strings.HasSuffix(word, "}") && strings.Count(word, "{") == 1:
			words[i] = "#"
		default: // a wildcard stands for whole words only
			return "#"
		}
	}
	return strings.Join(words, ".")
}

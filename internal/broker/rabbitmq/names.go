package rabbitmq

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/outboxctl/outboxctl/internal/broker"
)

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

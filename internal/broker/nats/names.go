package nats

import (
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// CheckName refuses a subject (broker.KindTopic) or the name of a consumer
// (broker.KindSubscription) that a server would refuse, or that would mean many.
func CheckName(kind, name string) error {
	if kind == broker.KindSubscription {
		if name == "" || len(name) > 255 || strings.ContainsFunc(name, notInConsumer) {
			return fmt.Errorf("NATS consumer %q: want up to 255 letters, digits or -_", name)
		}
		return nil
	}
	for token := range strings.SplitSeq(name, ".") {
		if token == "" || strings.ContainsFunc(token, notInToken) {
			return fmt.Errorf("NATS subject %q: want words with dots between them, without blanks, * and >", name)
		}
	}
	switch {
	case len(name) > 255:
		return fmt.Errorf("NATS subject %q: want up to 255 bytes", name)
	case strings.HasPrefix(name, "$"), strings.HasPrefix(name, "_"):
		return fmt.Errorf("NATS subject %q: names that begin with $ or _ belong to the server", name)
	}
	return nil
}

func notInToken(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }

func notInConsumer(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// plain is a subject as the name of a stream or a consumer, which have no dots.
func plain(subject string) string {
	return strings.Map(func(r rune) rune {
		if notInConsumer(r) {
			return '-'
		}
		return r
	}, subject)
}

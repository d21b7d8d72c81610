package nats

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	// orderingKeyHeader carries the ordering key.
	orderingKeyHeader = "ordering_key"
	// reservedPrefix begins the headers by which a publisher gives orders to a stream.
	reservedPrefix = "Nats-"
	// largestPayload is the most that a server can be told to take.
	largestPayload = 64 << 20
	// reserve is kept of a payload for the headers that are ours.
	reserve = 256
	// headerBytes is what the attributes may have together: those of a stored message have 64 KiB,
	// with four bytes of framing for each, an id and an ordering key.
	headerBytes = 64<<10 - 2<<10
)

// limits of a server that takes so many bytes in a payload.
func limits(payload int) wire.Limits {
	return wire.Limits{
		MessageBytes: payload - reserve, Attributes: 100, AttributeNameBytes: 256, AttributeValueBytes: headerBytes,
		AttributesBytes: headerBytes, ReservedPrefix: reservedPrefix,
	}
}

// message is what NATS gets of one of ours.
func (c *Client) message(subject string, m *dispatch.Message) (*nats.Msg, error) {
	header := make(nats.Header, len(m.Attributes)+2)
	for name, value := range m.Attributes {
		if err := checkHeader(name, value); err != nil {
			return nil, err
		}
		header[name] = []string{value}
	}
	if m.OrderingKey != "" {
		if err := checkHeader(orderingKeyHeader, m.OrderingKey); err != nil {
			return nil, err
		}
		header[orderingKeyHeader] = []string{m.OrderingKey}
	}
	if !c.cfg.NoDedupe {
		header[jetstream.MsgIDHeader] = []string{messageIDOf(m)}
	}
	return &nats.Msg{Subject: subject, Data: m.Data, Header: header}, nil
}

// messageIDOf is what a stream recognises a message by. A copy that an operator asked for has an id
// of its own: with the event's the stream would acknowledge it and store nothing.
func messageIDOf(m *dispatch.Message) string {
	if m.CopyOf == "" {
		return m.EventID
	}
	return m.EventID + "/" + m.CopyOf
}

// checkHeader refuses what would not arrive as it was sent: the library cuts off blanks around a
// value and turns line breaks into blanks, without a word.
func checkHeader(name, value string) error {
	switch {
	case strings.ContainsAny(value, "\r\n"):
		return fmt.Errorf("attribute %q: NATS takes no line breaks in a header", name)
	case value != "" && (isBlank(value[0]) || isBlank(value[len(value)-1])):
		return fmt.Errorf("attribute %q: NATS would cut off the blanks around its value", name)
	case strings.ContainsFunc(name, notInName):
		return fmt.Errorf("attribute %q: NATS takes only letters, digits and !#$%%&'*+-.^_`|~ in the name of a header", name)
	}
	return nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func notInName(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"()/,:;<=>?@[\]{}`, r)
}

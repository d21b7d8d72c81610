package wire

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/outboxctl/outboxctl/emit/internal/short"
)

// PubSubRequestBytes is the size of a whole encoded publish request that Google Cloud
// Pub/Sub takes.
const PubSubRequestBytes = 10_000_000

// Limits are what a broker takes in one message. They are checked when an event is
// emitted, and again before it is sent.
type Limits struct {
	// MessageBytes is the size of one message as the function MessageBytes counts it.
	MessageBytes int `json:"messageBytes"`
	// Attributes is how many attributes a message may have.
	Attributes int `json:"attributes"`
	// AttributeNameBytes and AttributeValueBytes are the sizes of each of them.
	AttributeNameBytes  int `json:"attributeNameBytes"`
	AttributeValueBytes int `json:"attributeValueBytes"`
	// AttributesBytes is the size of all names and values together; 0 means that
	// MessageBytes alone bounds them.
	AttributesBytes int `json:"attributesBytes,omitempty"`
	// ReservedPrefix begins the attribute names that the broker keeps for itself,
	// however they are capitalised. Empty means that it keeps none.
	ReservedPrefix string `json:"reservedPrefix,omitempty"`
	// CloudEventsPrefix begins the attributes of a CloudEvent in the broker's binding; empty
	// means "ce-".
	CloudEventsPrefix string `json:"cloudEventsPrefix,omitempty"`
}

// PubSubLimits returns the limits of Google Cloud Pub/Sub. No emulator holds them.
func PubSubLimits() Limits {
	// reserve is kept for the rest of a request that carries one message: the topic's
	// full name, of which an emitter does not know the length, and the framing.
	const reserve = 512
	return Limits{
		MessageBytes:        PubSubRequestBytes - reserve,
		Attributes:          100,
		AttributeNameBytes:  256,
		AttributeValueBytes: 1024,
		ReservedPrefix:      "goog",
	}
}

// TooLargeError reports a message beyond a limit of the broker. Sending it again cannot help.
type TooLargeError struct {
	// What is too large or too many: "message", "attributes", `value of attribute "…"`.
	What      string
	Size, Max int
	// Unit is what Size and Max count.
	Unit string
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s too large: %d %s, at most %d are allowed", e.What, e.Size, e.Unit, e.Max)
}

// AttributeError reports an attribute that the broker refuses whatever its size.
type AttributeError struct {
	Name    string
	Problem string
}

func (e *AttributeError) Error() string {
	return fmt.Sprintf("attribute %q %s", short.Name(e.Name), e.Problem)
}

// Check returns nil when the broker can take a message, or a *TooLargeError or an *AttributeError.
func (l Limits) Check(body []byte, attrs map[string]string) error {
	if len(attrs) > l.Attributes {
		return &TooLargeError{What: "attributes", Size: len(attrs), Max: l.Attributes, Unit: "attributes"}
	}
	for name, value := range attrs {
		if err := l.CheckAttribute(name, value); err != nil {
			return err
		}
	}
	if err := l.CheckTogether(attrs); err != nil {
		return err
	}
	return l.CheckSize(MessageBytes(len(body), attrs))
}

// CheckTogether returns nil when the attributes are not too large all together, or a
// *TooLargeError.
func (l Limits) CheckTogether(attrs map[string]string) error {
	if l.AttributesBytes == 0 {
		return nil
	}
	all := 0
	for name, value := range attrs {
		all += len(name) + len(value)
	}
	if all > l.AttributesBytes {
		return &TooLargeError{What: "attributes", Size: all, Max: l.AttributesBytes, Unit: "bytes together"}
	}
	return nil
}

// CheckSize returns nil when a message of that size, by MessageBytes, is within the
// limit, or a *TooLargeError.
func (l Limits) CheckSize(size int) error {
	if size > l.MessageBytes {
		return &TooLargeError{What: "message", Size: size, Max: l.MessageBytes, Unit: "bytes with its attributes"}
	}
	return nil
}

// CheckAttribute returns nil when the broker can take an attribute, or a
// *TooLargeError or an *AttributeError.
func (l Limits) CheckAttribute(name, value string) error {
	switch {
	case name == "":
		return &AttributeError{Name: name, Problem: "has no name"}
	case len(name) > l.AttributeNameBytes:
		return &TooLargeError{What: fmt.Sprintf("name of attribute %q", short.Name(name)), Size: len(name), Max: l.AttributeNameBytes, Unit: "bytes"}
	case len(value) > l.AttributeValueBytes:
		return &TooLargeError{What: fmt.Sprintf("value of attribute %q", short.Name(name)), Size: len(value), Max: l.AttributeValueBytes, Unit: "bytes"}
	case l.reserves(name):
		return &AttributeError{Name: name, Problem: "starts with " + l.ReservedPrefix + ", which the broker keeps for itself"}
	case !utf8.ValidString(name) || !utf8.ValidString(value):
		return &AttributeError{Name: name, Problem: "is not valid UTF-8"}
	}
	return nil
}

func (l Limits) reserves(name string) bool {
	n := len(l.ReservedPrefix)
	return n > 0 && len(name) >= n && strings.EqualFold(name[:n], l.ReservedPrefix)
}

// MessageBytes is the size of a message in an encoded Pub/Sub request: the body and
// every attribute with its name, each with its tag and length.
func MessageBytes(bodyBytes int, attrs map[string]string) int {
	size := 0
	if bodyBytes > 0 {
		size = fieldBytes(bodyBytes)
	}
	for name, value := range attrs {
		size += fieldBytes(fieldBytes(len(name)) + fieldBytes(len(value)))
	}
	return size
}

// fieldBytes is the size of a length-delimited protobuf field with a one-byte tag.
func fieldBytes(n int) int {
	varint := (bits.Len64(uint64(n)|1) + 6) / 7
	return 1 + varint + n
}

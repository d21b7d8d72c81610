package wire

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/outboxctl/outboxctl/emit/internal/short"
)

// The limits of a Google Cloud Pub/Sub publish request. No emulator holds them, so
// they are checked here: when an event is emitted, and again before it is sent.
const (
	// MaxRequestBytes is the size of a whole encoded publish request.
	MaxRequestBytes = 10_000_000
	// requestReserve is kept for the rest of a request that carries one message:
	// the topic's full name, of which an emitter does not know the length, and the
	// message's own framing.
	requestReserve = 512
	// MaxMessageBytes is what one message may weigh by MessageBytes.
	MaxMessageBytes = MaxRequestBytes - requestReserve

	MaxAttributes          = 100
	MaxAttributeKeyBytes   = 256
	MaxAttributeValueBytes = 1024
)

// TooLargeError says that a message is beyond a limit of the broker. Retrying
// cannot help.
type TooLargeError struct {
	// What is too large or too many: "message", "attributes", `attribute name "…"`.
	What      string
	Size, Max int
	Unit      string
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s too large: %d %s, at most %d are allowed", e.What, e.Size, e.Unit, e.Max)
}

// AttributeError says that an attribute's name or value is one the broker refuses
// whatever its size.
type AttributeError struct {
	Name    string
	Problem string
}

func (e *AttributeError) Error() string {
	return fmt.Sprintf("attribute %q %s", short.Name(e.Name), e.Problem)
}

// CheckLimits says whether the broker could take a message. The error is a
// *TooLargeError or an *AttributeError.
func CheckLimits(body []byte, attrs map[string]string) error {
	if len(attrs) > MaxAttributes {
		return &TooLargeError{What: "attributes", Size: len(attrs), Max: MaxAttributes, Unit: "attributes"}
	}
	for name, value := range attrs {
		if err := CheckAttribute(name, value); err != nil {
			return err
		}
	}
	if size := MessageBytes(len(body), attrs); size > MaxMessageBytes {
		return &TooLargeError{What: "message", Size: size, Max: MaxMessageBytes, Unit: "bytes with its attributes"}
	}
	return nil
}

func CheckAttribute(name, value string) error {
	switch {
	case name == "":
		return &AttributeError{Name: name, Problem: "has no name"}
	case len(name) > MaxAttributeKeyBytes:
		return &TooLargeError{What: fmt.Sprintf("name of attribute %q", short.Name(name)), Size: len(name), Max: MaxAttributeKeyBytes, Unit: "bytes"}
	case len(value) > MaxAttributeValueBytes:
		return &TooLargeError{What: fmt.Sprintf("value of attribute %q", short.Name(name)), Size: len(value), Max: MaxAttributeValueBytes, Unit: "bytes"}
	case hasGoogPrefix(name):
		return &AttributeError{Name: name, Problem: "starts with goog, which the broker keeps for itself"}
	case !utf8.ValidString(name) || !utf8.ValidString(value):
		return &AttributeError{Name: name, Problem: "is not valid UTF-8"}
	}
	return nil
}

func hasGoogPrefix(name string) bool {
	return len(name) >= 4 && strings.EqualFold(name[:4], "goog")
}

// MessageBytes is what a message weighs in an encoded publish request: the body
// and every attribute with its name, each with its tag and length.
func MessageBytes(bodyBytes int, attrs map[string]string) int {
	size := 0
	if bodyBytes > 0 {
		size = fieldBytes(bodyBytes)
	}
	for name, value := range attrs {
		size += attributeBytes(len(name), len(value))
	}
	return size
}

func attributeBytes(name, value int) int {
	return fieldBytes(fieldBytes(name) + fieldBytes(value))
}

// fieldBytes is the size of a length-delimited protobuf field with a one-byte tag.
func fieldBytes(n int) int {
	varint := (bits.Len64(uint64(n)|1) + 6) / 7
	return 1 + varint + n
}

package pubsub

import (
	"iter"
	"math/bits"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// What one publish request may hold.
const (
	// MaxRequestMessages is Pub/Sub's limit.
	MaxRequestMessages = 1000
	// MaxRequestBytes is Pub/Sub's limit for the encoded request, the topic's
	// name and all framing included.
	MaxRequestBytes = wire.PubSubRequestBytes
	// preferredRequestBytes is where a request with several messages ends: a
	// lost connection repeats less, and several requests overlap. A larger
	// message travels alone.
	preferredRequestBytes = 3 << 20
)

// span is msgs[from:to] of one request, and its encoded size.
type span struct {
	from, to int
	bytes    int
}

// requests cuts msgs into as few requests as the limits allow, in order.
func requests(path string, msgs []dispatch.Message) iter.Seq[span] {
	return func(yield func(span) bool) {
		base := fieldSize(len(path))
		part := span{bytes: base}
		for i, m := range msgs {
			size := fieldSize(wire.MessageBytes(len(m.Data), m.Attributes) + orderingKeySize(m.OrderingKey))
			full := part.to-part.from == MaxRequestMessages || part.bytes+size > preferredRequestBytes
			if full && part.to > part.from {
				if !yield(part) {
					return
				}
				part = span{from: i, bytes: base}
			}
			part.to = i + 1
			part.bytes += size
		}
		if part.to > part.from {
			yield(part)
		}
	}
}

func orderingKeySize(key string) int {
	if key == "" {
		return 0
	}
	return fieldSize(len(key))
}

// fieldSize is a length-delimited field: one byte of tag, the length, the content.
func fieldSize(n int) int {
	return 1 + (bits.Len(uint(n)|1)+6)/7 + n
}

package dispatch

import (
	"context"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// Message is one event in the form a broker stores: the row's payload bytes, unchanged, and
// its attributes.
type Message struct {
	// EventID is the event's id. It is also the attribute event_id; it stands here so that
	// a Publisher can name a message without reading attributes.
	EventID string
	// Data is the message body. A Publisher must neither change nor keep it after Publish
	// has returned.
	Data []byte
	// Attributes are sent as they are. A Publisher must not change the map.
	Attributes map[string]string
	// OrderingKey, unless it is empty, is what the message keeps its order in.
	OrderingKey string
	// EventType is the event's. AggregateType and AggregateID are empty where events are about
	// no aggregate.
	EventType, AggregateType, AggregateID string
	// Namespace, TenantID and DedupeKey are the event's; the latter two may be empty.
	Namespace, TenantID, DedupeKey string
	// Seq is the event's place among all events of its table. It is not without gaps, and
	// only the order of one ordering key is that of Seq.
	Seq int64
	// CopyOf, unless it is empty, is the broker's id of the message that the event was
	// published as before: an operator publishes it once more. A broker that drops what has
	// an id it knows must be given another one than the event's, or it would take the copy
	// for a repetition.
	CopyOf string
	// Attempt is the number of this attempt, from 1.
	Attempt int
}

// Size is what the message weighs in a request: body, attribute names and values, and the
// ordering key.
func (m Message) Size() int {
	n := len(m.Data) + len(m.OrderingKey)
	for k, v := range m.Attributes {
		n += len(k) + len(v)
	}
	return n
}

// Result is the broker's answer for one message.
type Result struct {
	// MessageID is the broker's own id of the stored message. It is set exactly when Err is
	// nil.
	MessageID string
	// Err is why the message was not acknowledged. ClassOf reads its class; an error that is
	// not a *Failure counts as Retryable.
	Err error
}

// Publisher hands messages to a broker, or to whatever takes events. Each makes one of a
// function; one of your own is tested by the suite of package dispatchtest.
//
// A Publisher never retries by itself: retries, backoff and dead letters are the
// dispatcher's, which can only decide well when it sees the broker's first answer.
type Publisher interface {
	// Publish sends msgs to a logical topic (domain, analytics, …) and waits for the
	// broker's answer for each. It returns exactly one Result per message, in the order of
	// msgs.
	//
	// A nil Err is an acknowledgement: the message is stored. Anything else, including "no
	// answer before ctx ended", is an error of the right class. ErrUnsent in it promises that
	// the message was not stored and will not be. A Rejected result blames this message
	// alone, and is given only when the topic has accepted another one since; without that
	// proof it is Refused. Where the broker refuses a whole request because of one message,
	// the implementation isolates the culprit before it answers (see Isolate).
	//
	// Messages with an ordering key come alone with others of the same key. They are stored
	// in their order and acknowledged up to the first failure; see InOrder.
	//
	// Publish returns soon after ctx ends, and leaves nothing behind that sends later: what it
	// gave up is stored only if the broker had it by then. The caller keeps its lease long
	// enough for that. Publish may be called concurrently, for the same and for other topics.
	//
	// Data and attributes reach the broker as they are. What the broker cannot carry as it is,
	// such as a line break in a header, comes back as Refused, or is encoded as the broker's
	// package says; it is never changed silently.
	Publish(ctx context.Context, topic string, msgs []Message) []Result

	// Limits are what the broker takes in one message to a logical topic, by what is known
	// now: a broker may tell them only when it is connected to. A message beyond them is not
	// offered, and its event dies; so they are never smaller than what the broker takes. An
	// empty topic asks for the largest of all topics.
	Limits(topic string) wire.Limits

	// Ready asks, with one cheap request that stores nothing, whether topic can be published
	// to. The error has the same classes as a Result's.
	Ready(ctx context.Context, topic string) error
}

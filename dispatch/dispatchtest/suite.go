// Package dispatchtest is the suite that every dispatch.Publisher must pass. An
// implementation supplies a broker that can be told to misbehave; the suite
// checks that the verdicts reach the dispatcher as the interface promises:
//
//	func TestMyPublisher(t *testing.T) {
//		dispatchtest.Run(t, func(t *testing.T) dispatchtest.Broker {
//			fake := startFake(t)
//			return dispatchtest.Broker{
//				Publisher: NewPublisher(fake.URL), Topic: "orders", Stored: fake.Stored,
//				Fail: fake.Fail, Recover: fake.Recover, Reject: fake.Reject, Hold: fake.Hold,
//			}
//		})
//	}
package dispatchtest

import (
	"cmp"
	"testing"

	"github.com/outboxctl/outboxctl/dispatch"
)

// Broker is one broker with a publisher connected to it. The suite asks for a
// fresh one per test.
type Broker struct {
	Publisher dispatch.Publisher
	// Topic is a logical topic that exists and holds nothing yet.
	Topic string
	// MissingTopic is a logical topic the broker knows nothing of; empty where every
	// topic exists.
	MissingTopic string
	// Stored lists what the broker holds for Topic, in the order of arrival.
	Stored func() []dispatch.Message
	// Batch is more messages than the broker takes in one request; 2,501 when zero.
	Batch int
	// Fail makes the broker answer every publish request with an error of this
	// class, storing nothing, until Recover is called.
	Fail    func(class dispatch.Class)
	Recover func()
	// Reject makes the broker refuse, as a whole, each request that contains the
	// event.
	Reject func(eventID string)
	// Away cuts the connections to the broker and makes it unreachable until back is called; it
	// keeps what it has stored. Nil where there is no connection: Fail is used instead.
	Away func() (back func())
	// Hold makes the broker keep every publish request unanswered. It returns a
	// channel that yields when a request has arrived, and the function that lets
	// requests pass again.
	Hold func() (arrived <-chan struct{}, release func())
}

// batch is the size of what the suite calls a large batch.
func (b Broker) batch() int { return cmp.Or(b.Batch, 2501) }

// Run runs the suite. open starts a broker and registers its end with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Broker) {
	t.Helper()
	for _, tc := range []struct {
		name string
		run  func(t *testing.T, b Broker)
	}{
		{"stores what it was given, unchanged", storesUnchanged},
		{"answers in order, once per message", answersInOrder},
		{"accepts an empty batch", acceptsNothing},
		{"splits a large batch", splitsLargeBatch},
		{"tells the class of a failure", tellsClasses},
		{"takes a message of the size that it says", takesWhatItSays},
		{"isolates a rejected message", isolatesRejected},
		{"isolates several rejected messages", isolatesSeveral},
		{"keeps the order of a key", keepsOrder},
		{"stops a key at a rejected message", stopsAKey},
		{"stops a key at the first failure", stopsAKeyAtAnOutage},
		{"blames a missing topic, not the messages", blamesMissingTopic},
		{"is ready without storing anything", readyStoresNothing},
		{"never acknowledges after the context ended", endedBefore},
		{"returns when the context ends", endedDuring},
		{"serves callers side by side", servesConcurrently},
		{"stores nothing later that it gave up", givesUpForGood},
		{"changes no header silently", keepsHeaders},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(t, open(t))
		})
	}
}

package dispatchtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// messages makes n distinct messages. Bodies carry what careless code changes:
// key order, spaces, escapes, text beyond ASCII.
func messages(prefix string, n int) []dispatch.Message {
	msgs := make([]dispatch.Message, n)
	for i := range msgs {
		id := fmt.Sprintf("%s-%d", prefix, i)
		msgs[i] = dispatch.Message{
			EventID: id, EventType: "order_created", AggregateType: "order", AggregateID: "a-1", Namespace: "default", Seq: int64(i + 1), Attempt: 1,
			Data:       fmt.Appendf(nil, `{"z": %d,  "a": "\u00e9é<&>", "n": 1.0}`, i),
			Attributes: map[string]string{"event_id": id, "event_type": "order_created", "empty": "", "text": "naïve ✓"},
		}
	}
	return msgs
}

func clone(msgs []dispatch.Message) []dispatch.Message {
	out := slices.Clone(msgs)
	for i, m := range msgs {
		out[i].Data, out[i].Attributes = slices.Clone(m.Data), maps.Clone(m.Attributes)
	}
	return out
}

// onTheWire is what of messages a broker stores.
func onTheWire(msgs []dispatch.Message) []dispatch.Message {
	out := make([]dispatch.Message, len(msgs))
	for i, m := range msgs {
		out[i] = dispatch.Message{EventID: m.EventID, Data: m.Data, Attributes: m.Attributes, OrderingKey: m.OrderingKey}
	}
	return out
}

func byID(msgs []dispatch.Message) map[string]dispatch.Message {
	out := make(map[string]dispatch.Message, len(msgs))
	for _, m := range onTheWire(msgs) {
		out[m.EventID] = m
	}
	return out
}

// requireStored checks that the broker holds exactly these messages, each once.
func requireStored(t *testing.T, b Broker, want []dispatch.Message) {
	t.Helper()
	requireSame(t, want, b.Stored())
}

func requireSame(t *testing.T, want, stored []dispatch.Message) {
	t.Helper()
	require.Len(t, stored, len(want))
	require.Equal(t, byID(want), byID(stored))
}

func requireAcknowledged(t *testing.T, results []dispatch.Result) {
	t.Helper()
	for i, r := range results {
		require.NoError(t, r.Err, "message %d", i)
		require.NotEmpty(t, r.MessageID, "message %d", i)
	}
}

func requireClass(t *testing.T, want dispatch.Class, results []dispatch.Result) {
	t.Helper()
	for i, r := range results {
		require.Error(t, r.Err, "message %d", i)
		require.Equal(t, want, dispatch.ClassOf(r.Err), "message %d: %v", i, r.Err)
		require.Empty(t, r.MessageID, "message %d", i)
	}
}

func storesUnchanged(t *testing.T, b Broker) {
	msgs := messages("same", 10)
	before := clone(msgs)
	requireAcknowledged(t, b.Publisher.Publish(t.Context(), b.Topic, msgs))
	require.Equal(t, before, msgs, "the caller's messages were changed")
	requireStored(t, b, before)
}

func answersInOrder(t *testing.T, b Broker) {
	msgs := messages("order", 7)
	b.Reject(msgs[3].EventID)
	results := b.Publisher.Publish(t.Context(), b.Topic, msgs)
	require.Len(t, results, len(msgs))
	ids := map[string]bool{}
	for i, r := range results {
		require.Equal(t, i == 3, r.Err != nil, "message %d: %v", i, r.Err)
		if r.Err == nil {
			require.False(t, ids[r.MessageID], "id %s answered twice", r.MessageID)
			ids[r.MessageID] = true
		}
	}
}

func acceptsNothing(t *testing.T, b Broker) {
	require.Empty(t, b.Publisher.Publish(t.Context(), b.Topic, nil))
	require.Empty(t, b.Stored())
}

func splitsLargeBatch(t *testing.T, b Broker) {
	msgs := messages("many", b.batch())
	results := b.Publisher.Publish(t.Context(), b.Topic, msgs)
	require.Len(t, results, len(msgs))
	requireAcknowledged(t, results)
	requireStored(t, b, msgs)
}

func tellsClasses(t *testing.T, b Broker) {
	for _, class := range []dispatch.Class{dispatch.Retryable, dispatch.Refused, dispatch.Misconfigured} {
		b.Fail(class)
		results := b.Publisher.Publish(t.Context(), b.Topic, messages(class.String(), 3))
		require.Len(t, results, 3)
		requireClass(t, class, results)
		require.NotEqual(t, dispatch.CodeOf(errors.New("no failure")), dispatch.CodeOf(results[0].Err), "the broker's own code is lost")
	}
	b.Recover()
	require.Empty(t, b.Stored())
	requireAcknowledged(t, b.Publisher.Publish(t.Context(), b.Topic, messages("after", 3)))
}

func takesWhatItSays(t *testing.T, b Broker) {
	require.NoError(t, b.Publisher.Ready(t.Context(), b.Topic), "limits may be known only then")
	limits := b.Publisher.Limits(b.Topic)
	msg := messages("largest", 1)[0]
	for i := len(msg.Attributes); i < limits.Attributes; i++ {
		name := fmt.Sprintf("%0*d", limits.AttributeNameBytes, i)
		msg.Attributes[name] = strings.Repeat("x", limits.AttributeValueBytes)
		if limits.Check(nil, msg.Attributes) != nil { // all of them together
			delete(msg.Attributes, name)
			break
		}
	}
	msg.Data = make([]byte, limits.MessageBytes-wire.MessageBytes(0, msg.Attributes)-8)
	require.NoError(t, limits.Check(msg.Data, msg.Attributes))
	requireAcknowledged(t, b.Publisher.Publish(t.Context(), b.Topic, []dispatch.Message{msg}))
}

func isolatesRejected(t *testing.T, b Broker) {
	for _, n := range []int{1, 2, 50} {
		msgs := messages(fmt.Sprintf("one-of-%d", n), n)
		culprit := n / 2
		b.Reject(msgs[culprit].EventID)
		stored := len(b.Stored())
		results := b.Publisher.Publish(t.Context(), b.Topic, msgs)
		require.Len(t, results, n)
		class := dispatch.Rejected
		if n == 1 {
			class = dispatch.Refused // no other message shows that the topic accepts any
		}
		requireClass(t, class, results[culprit:culprit+1])
		requireAcknowledged(t, slices.Delete(results, culprit, culprit+1))
		require.Len(t, b.Stored(), stored+n-1, "the others are stored once")
	}
}

func isolatesSeveral(t *testing.T, b Broker) {
	msgs := messages("several", 40)
	bad := map[int]bool{0: true, 1: true, 17: true, 39: true}
	for i := range bad {
		b.Reject(msgs[i].EventID)
	}
	var good []dispatch.Message
	for i, r := range b.Publisher.Publish(t.Context(), b.Topic, msgs) {
		if bad[i] {
			requireClass(t, dispatch.Rejected, []dispatch.Result{r})
			continue
		}
		requireAcknowledged(t, []dispatch.Result{r})
		good = append(good, msgs[i])
	}
	requireStored(t, b, good)
}

// keyed gives messages one ordering key.
func keyed(msgs []dispatch.Message, key string) []dispatch.Message {
	for i := range msgs {
		msgs[i].OrderingKey = key
	}
	return msgs
}

func keepsOrder(t *testing.T, b Broker) {
	msgs := keyed(messages("key", b.batch()), "default/a")
	for rest := msgs; len(rest) > 0; {
		results := b.Publisher.Publish(t.Context(), b.Topic, rest)
		// A slow machine has no time for all of them one by one: the others are offered again.
		unsent := slices.IndexFunc(results, func(r dispatch.Result) bool { return errors.Is(r.Err, dispatch.ErrUnsent) })
		if unsent <= 0 {
			unsent = len(results)
		}
		requireAcknowledged(t, results[:unsent])
		rest = rest[unsent:]
	}
	require.Equal(t, onTheWire(msgs), onTheWire(b.Stored()), "in their order, with their key")
}

func stopsAKey(t *testing.T, b Broker) {
	for _, at := range []int{0, 1, 20, 39} {
		msgs := keyed(messages(fmt.Sprintf("key-%d", at), 40), "default/a")
		b.Reject(msgs[at].EventID)
		before := len(b.Stored())
		results := b.Publisher.Publish(t.Context(), b.Topic, msgs)
		require.Len(t, results, len(msgs))
		requireAcknowledged(t, results[:at])
		class := dispatch.Rejected
		if at == 0 {
			class = dispatch.Refused
		}
		requireClass(t, class, results[at:at+1])
		for _, r := range results[at+1:] {
			require.ErrorIs(t, r.Err, dispatch.ErrUnsent)
		}
		require.Equal(t, onTheWire(msgs[:at]), onTheWire(b.Stored()[before:]), "nothing behind it is stored")
	}
}

func stopsAKeyAtAnOutage(t *testing.T, b Broker) {
	b.Fail(dispatch.Retryable)
	requireClass(t, dispatch.Retryable, b.Publisher.Publish(t.Context(), b.Topic, keyed(messages("away", 2500), "default/a")))
	require.Empty(t, b.Stored())
}

func blamesMissingTopic(t *testing.T, b Broker) {
	if b.MissingTopic == "" {
		t.Skip("every topic exists")
	}
	requireClass(t, dispatch.Misconfigured, b.Publisher.Publish(t.Context(), b.MissingTopic, messages("lost", 3)))
	err := b.Publisher.Ready(t.Context(), b.MissingTopic)
	require.Error(t, err)
	require.Equal(t, dispatch.Misconfigured, dispatch.ClassOf(err))
}

func readyStoresNothing(t *testing.T, b Broker) {
	require.NoError(t, b.Publisher.Ready(t.Context(), b.Topic))
	require.Empty(t, b.Stored())
}

func endedBefore(t *testing.T, b Broker) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	results := b.Publisher.Publish(ctx, b.Topic, messages("late", 3))
	require.Len(t, results, 3)
	requireClass(t, dispatch.Retryable, results)
}

func endedDuring(t *testing.T, b Broker) {
	arrived, release := b.Hold()
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []dispatch.Result, 1)
	go func() { done <- b.Publisher.Publish(ctx, b.Topic, messages("held", 3)) }()
	<-arrived
	cancel()
	results := <-done
	require.Len(t, results, 3)
	requireClass(t, dispatch.Retryable, results)
}

func servesConcurrently(t *testing.T, b Broker) {
	const callers = 8
	var all []dispatch.Message
	var wg sync.WaitGroup
	results := make([][]dispatch.Result, callers)
	for i := range callers {
		msgs := messages(fmt.Sprintf("caller-%d", i), 20)
		all = append(all, msgs...)
		wg.Go(func() { results[i] = b.Publisher.Publish(t.Context(), b.Topic, msgs) })
	}
	wg.Wait()
	for _, r := range results {
		require.Len(t, r, 20)
		requireAcknowledged(t, r)
	}
	requireStored(t, b, all)
}

// givesUpForGood: a client that keeps what it could not send, and sends it when the broker is back,
// stores events whose lease another publisher has by then.
func givesUpForGood(t *testing.T, b Broker) {
	before, lost, after := messages("before", 2), messages("given-up", 3), messages("after", 2)
	requireAcknowledged(t, b.Publisher.Publish(t.Context(), b.Topic, before))
	away := b.Away
	if away == nil {
		away = func() func() { b.Fail(dispatch.Retryable); return b.Recover }
	}
	back := away()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	requireClass(t, dispatch.Retryable, b.Publisher.Publish(ctx, b.Topic, lost))
	back()
	for b.Publisher.Ready(t.Context(), b.Topic) != nil {
		runtime.Gosched()
	}
	for _, m := range after { // what a client has kept goes first, on each of its connections
		for b.Publisher.Publish(t.Context(), b.Topic, []dispatch.Message{m})[0].Err != nil {
			require.NoError(t, t.Context().Err())
		}
	}
	requireStored(t, b, append(before, after...))
}

// keepsHeaders: a header that the broker cannot carry as it is must be refused, or encoded by the
// rule of the broker's package, which Stored undoes.
func keepsHeaders(t *testing.T, b Broker) {
	values := []string{"", " leading", "trailing ", "\ttabs\t", "  ", "one\r\ntwo", "one\ntwo", "\r", "naïve ✓ \U0001f4e6", "a%20b", `"quoted"`, "MiXed CaSe", "a,b; c=d", "\x00", "\x7f\u0080"}
	names := []string{"lower", "X-Request-ID", "under_score", "dotted.name"}
	var want []dispatch.Message
	for i, value := range values {
		for j, name := range names {
			m := messages(fmt.Sprintf("header-%d-%d", i, j), 1)[0]
			m.Attributes[name] = value
			r := b.Publisher.Publish(t.Context(), b.Topic, []dispatch.Message{m})[0]
			if r.Err != nil {
				require.Equal(t, dispatch.Refused, dispatch.ClassOf(r.Err), "%s: %q: %v", name, value, r.Err)
				continue
			}
			want = append(want, m)
		}
	}
	require.NotEmpty(t, want, "not even %q is accepted", values[1])
	fold(want)
	stored := b.Stored()
	fold(stored)
	requireSame(t, want, stored)
}

// fold writes names of attributes in lower case: they need not differ by that alone.
func fold(msgs []dispatch.Message) {
	for i, m := range msgs {
		attrs := make(map[string]string, len(m.Attributes))
		for name, value := range m.Attributes {
			attrs[strings.ToLower(name)] = value
		}
		msgs[i].Attributes = attrs
	}
}

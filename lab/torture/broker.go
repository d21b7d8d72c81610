package torture

import (
	"context"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/history"
)

// Headers by which the broker knows the messages it does not take.
const (
	headerReject = "torture-reject" // never
	headerHeal   = "torture-heal"   // not before it is healed, or not for the time it names
)

// healAtTheEnd is the value of headerHeal that names no time.
const healAtTheEnd = "1"

// brokerRig is the Pub/Sub fake with its faults, and the record of what reached it.
type brokerRig struct {
	*devstack.PubSub
	rec *history.Recorder

	mu      sync.Mutex
	random  *rand.Rand
	trouble trouble
	healed  bool
	arrived map[int]time.Time // when a request came, until it is answered
	// refused is when the broker met the events that it takes only later.
	refused map[string]time.Time
}

// trouble is what goes wrong with Publish requests at the moment.
type trouble struct {
	code  codes.Code // instead of storing
	lost  bool       // after storing
	delay time.Duration
	share float64 // of the requests
}

func newBroker(fake *devstack.PubSub, rec *history.Recorder, random *rand.Rand) *brokerRig {
	b := &brokerRig{PubSub: fake, rec: rec, random: random, arrived: map[int]time.Time{}, refused: map[string]time.Time{}}
	fake.OnPublish(b.publish)
	fake.OnAnswer(b.answer)
	fake.RejectMessages(b.rejects)
	return b
}

// set replaces the trouble; the zero value ends it.
func (b *brokerRig) set(t trouble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble = t
}

// heal makes the broker take what it took for sick so far.
func (b *brokerRig) heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.healed = true
}

func (b *brokerRig) publish(_ context.Context, call devstack.PublishCall) devstack.PublishFault {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived[call.Number] = time.Now()
	t := b.trouble
	if t == (trouble{}) || b.random.Float64() >= t.share {
		return devstack.PublishFault{}
	}
	switch {
	case t.lost:
		return devstack.PublishFault{LostReply: status.Error(codes.Unavailable, "the reply was lost")}
	case t.code != codes.OK:
		return devstack.PublishFault{Delay: t.delay, Err: status.Error(t.code, "injected")}
	default:
		return devstack.PublishFault{Delay: t.delay}
	}
}

func (b *brokerRig) rejects(_ string, m *pubsubpb.PubsubMessage) bool {
	if m.GetAttributes()[headerReject] != "" {
		return true
	}
	heals := m.GetAttributes()[headerHeal]
	if heals == "" {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id, now := m.GetAttributes()["event_id"], time.Now()
	if b.refused[id].IsZero() {
		b.refused[id] = now
	}
	after, err := time.ParseDuration(heals)
	return !b.healed && (err != nil || now.Sub(b.refused[id]) < after)
}

func (b *brokerRig) answer(a devstack.PublishAnswer) {
	now := time.Now()
	b.mu.Lock()
	at := b.arrived[a.Number]
	delete(b.arrived, a.Number)
	b.mu.Unlock()
	for i, m := range a.Messages {
		arrival := history.Arrival{
			At: at, Answered: now, Request: a.Number, EventID: m.GetAttributes()["event_id"], Topic: path.Base(a.Topic),
			Stored: i < len(a.Stored), ReplyLost: a.ReplyLost, OrderingKey: m.GetOrderingKey(),
		}
		if a.Err != nil {
			arrival.Code = status.Code(a.Err).String()
		}
		if arrival.Stored {
			arrival.MessageID, arrival.Data, arrival.Attributes = a.Stored[i], string(m.GetData()), m.GetAttributes()
			// The fake numbers messages under the lock that it stores them under.
			arrival.Order, _ = strconv.ParseInt(strings.TrimPrefix(a.Stored[i], "m"), 10, 64)
		}
		b.rec.Add(arrival)
	}
}

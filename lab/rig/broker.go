package rig

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

// Headers by which the broker knows the messages it does not take.
const (
	HeaderReject = "lab-reject" // never
	HeaderHeal   = "lab-heal"   // not before it is healed, or not for the time it names
)

// HealAtTheEnd is the value of HeaderHeal that names no time.
const HealAtTheEnd = "1"

// Trouble is what goes wrong with Publish requests.
type Trouble struct {
	Code  codes.Code // instead of storing
	Lost  bool       // the reply, after storing
	Delay time.Duration
	Share float64 // of the requests
}

// Broker is the Pub/Sub fake with its troubles, and who watches it.
type Broker struct {
	*devstack.PubSub
	// Front is the name of the destination before it, one of Fronts.
	Front string

	random   *rand.Rand
	arrivals chan struct{} // gets a value when a request comes, as long as there is room
	answered func(at time.Time, a devstack.PublishAnswer)

	front  Front
	handOn func(topic string, m *pubsubpb.PubsubMessage) error
	number atomic.Int64

	mu      sync.Mutex
	trouble Trouble
	healed  bool
	arrived map[int]time.Time    // when a request came, until it is answered
	refused map[string]time.Time // when the broker met the events that it takes only later
}

// NewBroker returns a broker for World.StartBroker. Each answer is handed to answered, with the
// time its request came.
func NewBroker(random *rand.Rand, answered func(at time.Time, a devstack.PublishAnswer)) *Broker {
	return &Broker{
		random: random, answered: answered, arrivals: make(chan struct{}, 1),
		arrived: map[int]time.Time{}, refused: map[string]time.Time{},
	}
}

// Set replaces the trouble; the zero value ends it.
func (b *Broker) Set(t Trouble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble = t
}

// Slow is Set for a broker that takes so long for each request.
func (b *Broker) Slow(delay time.Duration) { b.Set(Trouble{Delay: delay, Share: 1}) }

// Heal makes the broker take what is marked by HeaderHeal.
func (b *Broker) Heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.healed = true
}

// Drain forgets the requests that have come, before AwaitRequest.
func (b *Broker) Drain() {
	for {
		select {
		case <-b.arrivals:
		default:
			return
		}
	}
}

// AwaitRequest waits for the next request.
func (b *Broker) AwaitRequest(ctx context.Context) {
	Check(Within(ctx, b.arrivals, time.Minute))
}

func (b *Broker) publish(_ context.Context, call devstack.PublishCall) devstack.PublishFault {
	select {
	case b.arrivals <- struct{}{}:
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived[call.Number] = time.Now()
	t := b.trouble
	switch {
	case t == (Trouble{}) || b.random.Float64() >= t.Share:
		return devstack.PublishFault{}
	case t.Lost:
		return devstack.PublishFault{LostReply: status.Error(codes.Unavailable, "the reply was lost")}
	case t.Code != codes.OK:
		return devstack.PublishFault{Delay: t.Delay, Err: status.Error(t.Code, "injected")}
	default:
		return devstack.PublishFault{Delay: t.Delay}
	}
}

func (b *Broker) rejects(_ string, m *pubsubpb.PubsubMessage) bool {
	if m.GetAttributes()[HeaderReject] != "" {
		return true
	}
	heals := m.GetAttributes()[HeaderHeal]
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

func (b *Broker) answer(a devstack.PublishAnswer) {
	b.mu.Lock()
	at := b.arrived[a.Number]
	delete(b.arrived, a.Number)
	b.mu.Unlock()
	b.answered(at, a)
}

// found notes a message that is stored although its publisher was not told.
func (b *Broker) found(topic string, m *pubsubpb.PubsubMessage, at time.Time, id string) {
	Check(b.handOn(topic, m))
	b.answered(at, devstack.PublishAnswer{
		PublishCall: devstack.PublishCall{Number: int(b.number.Add(1)), Topic: topic, Messages: []*pubsubpb.PubsubMessage{m}},
		Stored:      []string{id}, ReplyLost: true,
	})
}

// Front is a destination that publishers know instead of the Pub/Sub fake. It has the broker's
// troubles, stores what it takes, and hands that on to the fake, which consumers read from.
type Front interface {
	Addr() string
	// Env are the settings of a publisher that reaches it at an address.
	Env(addr string) []string
	Disconnect()
	Reconnect() error
	Stop(ctx context.Context) error
}

// Fronts are the names of those that there are; empty is the fake itself.
func Fronts() []string { return []string{"", "http", "nats"} }

// errKnown means that a message is stored already, under its earlier id.
var errKnown = errors.New("stored before")

// startFront starts one, behind which the fake has no troubles of its own.
func (w *World) startFront(ctx context.Context, b *Broker) {
	client := Must(pubsub.Connect(ctx, pubsub.Config{Project: b.Project, Emulator: b.PubSub.Addr()}))
	w.OnClose(client.Close)
	publisher := client.PubSub().TopicAdminClient
	b.handOn = func(topic string, m *pubsubpb.PubsubMessage) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := publisher.Publish(ctx, &pubsubpb.PublishRequest{
			Topic: "projects/" + b.Project + "/topics/" + topic, Messages: []*pubsubpb.PubsubMessage{m},
		})
		return err
	}
	if b.Front == "nats" {
		b.front = startNATSFront(b, w.Dir)
	} else {
		b.front = startHTTPFront(b)
	}
	w.stopping(b.front.Stop)
}

// bare is the fake without a front.
type bare struct{ *devstack.PubSub }

func (f bare) Env(addr string) []string {
	return []string{"OUTBOXCTL_PUBSUB_PROJECT=" + f.Project, "OUTBOXCTL_PUBSUB_EMULATOR=" + addr}
}

// Addr is where publishers reach the broker.
func (b *Broker) Addr() string { return b.front.Addr() }

// Disconnect makes the broker unreachable for publishers until Reconnect.
func (b *Broker) Disconnect() { b.front.Disconnect() }

// Reconnect ends it.
func (b *Broker) Reconnect() error { return b.front.Reconnect() }

// take decides over one message of a front as the fake does over a request: troubles, then store,
// then the reply, then the fake behind. A reply is lost on purpose, or because the publisher of
// this very message had hung up before.
func (b *Broker) take(
	ctx context.Context, topic string, m *pubsubpb.PubsubMessage, store func() (id string, err error), reply func(codes.Code) error,
) {
	call := devstack.PublishCall{Number: int(b.number.Add(1)), Topic: topic, Messages: []*pubsubpb.PubsubMessage{m}}
	fault := b.publish(ctx, call)
	a := devstack.PublishAnswer{PublishCall: call, Err: fault.Err}
	if fault.Delay > 0 && !Pause(ctx, fault.Delay) || ctx.Err() != nil {
		a.Err = status.Error(codes.Canceled, "the publisher has gone")
	}
	switch {
	case a.Err != nil:
	case b.rejects(topic, m):
		a.Err = status.Error(codes.InvalidArgument, "rejected")
	default:
		id, err := store()
		switch {
		case errors.Is(err, errKnown):
			b.forget(call.Number)
			if fault.LostReply == nil {
				_ = reply(codes.OK) // that it is known excuses nothing
			}
			return
		case err != nil:
			a.Err = status.Error(codes.Unavailable, err.Error())
		default:
			a.Stored, a.Err, a.ReplyLost = []string{id}, fault.LostReply, fault.LostReply != nil
		}
	}
	if !a.ReplyLost {
		gone := ctx.Err() // one that leaves once it was told is no excuse
		err := reply(status.Code(a.Err))
		a.ReplyLost = len(a.Stored) > 0 && (gone != nil || err != nil)
	}
	b.answer(a)
	if len(a.Stored) > 0 {
		if err := b.handOn(topic, m); err != nil {
			panic(err) // the fake behind has no troubles
		}
	}
}

func (b *Broker) forget(number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.arrived, number)
}

package rig

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

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

package devstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// DefaultProject is the Pub/Sub project of the embedded stack.
	DefaultProject = "outboxctl-dev"
	// pubSubMaxRequest is above Pub/Sub's own limit of 10 MB per request, so that size limits are ours
	// to enforce. The fake's own server stops at gRPC's 4 MB, where the client retries until its
	// deadline instead of reporting an error.
	pubSubMaxRequest = 20 << 20
)

// PubSubParams describes how to start the Pub/Sub fake.
type PubSubParams struct {
	// Port to listen on; 0 picks a free one. With AnyPort a free one also does when Port is taken.
	Port    int
	AnyPort bool
}

// PubSub is Google's in-memory Pub/Sub fake behind a gRPC server of ours, which lets tests make it
// fail and the streams of a subscription take turns.
//
// The fake forgets messages that were not received after ten minutes, keeps every message ever
// published in memory, and counts deliveries over all subscriptions of a topic together: one that
// gives its messages back can have another's dead-lettered.
type PubSub struct {
	// Project is a project id to use; the fake accepts any.
	Project string

	faults
	turns turns
	fake  *pstest.Server
	addr  string

	mu     sync.Mutex
	server *grpc.Server // nil while disconnected or stopped
	served chan struct{}
	closed bool
}

// StartPubSub starts the fake.
func StartPubSub(ctx context.Context, params PubSubParams) (*PubSub, error) {
	fake, err := newFake(ctx)
	if err != nil {
		return nil, err
	}
	p := &PubSub{Project: DefaultProject, fake: fake}
	err = p.listen(address(params.Port))
	if err != nil && params.AnyPort {
		err = p.listen(address(0))
	}
	if err != nil {
		return nil, errors.Join(err, fake.Close())
	}
	return p, nil
}

// newFake makes the fake and closes the listener it insists on opening.
func newFake(ctx context.Context) (fake *pstest.Server, err error) {
	defer func() {
		if r := recover(); r != nil { // it panics when it cannot listen
			err = fmt.Errorf("start the Pub/Sub fake: %v", r)
		}
	}()
	fake = pstest.NewServerWithAddress(address(0))
	return fake, errors.Join(waitServing(ctx, fake.Addr), fake.Close())
}

// waitServing returns once a gRPC server accepts calls. Closed before its accept loop runs, the
// fake would complain on the standard logger.
func waitServing(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("start the Pub/Sub fake: %w", err)
	}
	defer func() { _ = conn.Close() }()
	client := pubsubpb.NewPublisherClient(conn)
	_, err = client.ListTopics(ctx, &pubsubpb.ListTopicsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("start the Pub/Sub fake: %w", err)
	}
	return nil
}

// Addr is what PUBSUB_EMULATOR_HOST takes.
func (p *PubSub) Addr() string { return p.addr }

// Disconnect closes the port and every connection, as a broker that is away. Topics, subscriptions
// and messages stay.
func (p *PubSub) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disconnect()
}

func (p *PubSub) disconnect() {
	if p.server == nil {
		return
	}
	// Not gracefully: a streaming pull never ends by itself.
	p.server.Stop()
	<-p.served
	p.server = nil
}

// Reconnect ends a Disconnect, on the same port.
func (p *PubSub) Reconnect() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("reconnect the Pub/Sub fake: it is stopped")
	}
	if p.server != nil {
		return nil
	}
	return p.listen(p.addr)
}

func (p *PubSub) listen(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("start the Pub/Sub fake: %w", err)
	}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(pubSubMaxRequest),
		grpc.ChainUnaryInterceptor(p.unary, p.spaceNacks),
		grpc.ChainStreamInterceptor(p.stream, p.turns.intercept),
	)
	pubsubpb.RegisterPublisherServer(server, &p.fake.GServer)
	pubsubpb.RegisterSubscriberServer(server, &p.fake.GServer)
	pubsubpb.RegisterSchemaServiceServer(server, &p.fake.GServer)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // ends with Stop
	}()
	if p.addr == "" {
		p.addr = listener.Addr().String()
	}
	p.server, p.served = server, served
	return nil
}

// Stop ends the fake and forgets everything in it.
func (p *PubSub) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.disconnect()
	// The fake is Google's code: do not wait for it for ever. Nor for its goroutines, which end by
	// themselves: a stream that begins just now would be counted while it waits.
	done := make(chan error, 1)
	go func() { done <- p.fake.Close() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop the Pub/Sub fake: %w", ctx.Err())
	}
}

// Stored returns every message the fake has stored, oldest first, including those whose publisher
// was told otherwise.
func (p *PubSub) Stored() []*pstest.Message { return p.fake.Messages() }

// Forget drops every stored message, delivered or not.
func (p *PubSub) Forget() { p.fake.ClearMessages() }

// nackPauseSeconds is the fake's stand-in for a retry policy, whose own backoff would be too long
// for a laptop.
const nackPauseSeconds = 1

// spaceNacks keeps the promise of a subscription's retry policy, which the fake ignores: a message
// that was given back comes again after a pause. Without it a receiver that is stopping gets the
// same message over one stream after the other, and has used up what the dead-letter policy allows
// before the last of them is closed.
//
// It is a grpc.UnaryServerInterceptor.
func (p *PubSub) spaceNacks(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	deadline, ok := req.(*pubsubpb.ModifyAckDeadlineRequest)
	if ok && deadline.GetAckDeadlineSeconds() == 0 {
		sub, err := p.fake.GServer.GetSubscription(ctx,
			&pubsubpb.GetSubscriptionRequest{Subscription: deadline.GetSubscription()})
		if err == nil && sub.GetRetryPolicy() != nil {
			deadline.AckDeadlineSeconds = nackPauseSeconds
		}
	}
	return next(ctx, req)
}

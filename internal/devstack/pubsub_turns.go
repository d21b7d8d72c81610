package devstack

import (
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
)

// turns lets the streams of a subscription take turns, as the service does. The fake offers each
// message to its oldest streams first: beside a worker that opened enough of them, a second one on
// the same subscription would never receive anything.
type turns struct {
	mu     sync.Mutex
	rounds map[string]*round // by subscription; guarded by mu
}

// A round is one turn for each stream. It ends when none is left that could take its turn now; the
// others rest until then.
type round struct {
	streams map[*turnStream]turn
	over    chan struct{} // closed when the next round begins
}

type turn int

const (
	turnWaiting turn = iota // free to take a message
	turnSending             // has one in hand; a reader that is stuck keeps it there and must not hold up the rest
	turnResting             // has had its turn in this round
)

// next begins another round when no stream can take a turn in this one.
func (r *round) next() {
	for _, turn := range r.streams {
		if turn == turnWaiting {
			return
		}
	}
	for s, turn := range r.streams {
		if turn == turnResting {
			r.streams[s] = turnWaiting
		}
	}
	close(r.over)
	r.over = make(chan struct{})
}

// intercept is a grpc.StreamServerInterceptor.
func (t *turns) intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	s := &turnStream{ServerStream: stream, turns: t}
	defer t.leave(s)
	return handler(srv, s)
}

func (t *turns) join(s *turnStream, subscription string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rounds == nil {
		t.rounds = make(map[string]*round)
	}
	r := t.rounds[subscription]
	if r == nil {
		r = &round{streams: make(map[*turnStream]turn), over: make(chan struct{})}
		t.rounds[subscription] = r
	}
	s.subscription = subscription
	r.streams[s] = turnWaiting
}

func (t *turns) leave(s *turnStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.roundOf(s)
	if r == nil {
		return
	}
	if delete(r.streams, s); len(r.streams) == 0 {
		delete(t.rounds, s.subscription)
		return
	}
	r.next()
}

// roundOf is nil for a stream that has left: the fake may still be sending on it.
func (t *turns) roundOf(s *turnStream) *round {
	r := t.rounds[s.subscription]
	if r == nil {
		return nil
	}
	if _, joined := r.streams[s]; !joined {
		return nil
	}
	return r
}

// take is called with a message in hand. It returns what ends the round in which that was the
// stream's turn.
func (t *turns) take(s *turnStream) (over <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.roundOf(s)
	if r == nil {
		return nil
	}
	over = r.over
	r.streams[s] = turnSending
	r.next()
	return over
}

// rest returns when it is the stream's turn again, or the stream has ended.
func (t *turns) rest(s *turnStream, over <-chan struct{}) {
	if !t.mustRest(s, over) {
		return
	}
	select {
	case <-over:
	case <-s.Context().Done():
	}
}

func (t *turns) mustRest(s *turnStream, over <-chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.roundOf(s)
	if r == nil {
		return false
	}
	if over != r.over {
		r.streams[s] = turnWaiting
		return false
	}
	r.streams[s] = turnResting
	return true
}

// turnStream is a StreamingPull whose messages wait for their turn.
type turnStream struct {
	grpc.ServerStream
	turns        *turns
	subscription string // set by the first request, before anything is sent
	answersPings bool   // likewise

	sends sync.Mutex // a stream is not made for two senders
}

// RecvMsg answers the client's keep-alives here. The fake would do so holding its lock, and wait
// with it for a stream that rests or has broken.
func (s *turnStream) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		request, ok := m.(*pubsubpb.StreamingPullRequest)
		switch {
		case !ok:
			return nil
		case s.subscription == "":
			s.answersPings = request.GetProtocolVersion() >= 1
			s.turns.join(s, request.GetSubscription())
			return nil
		case len(request.GetAckIds()) > 0 || len(request.GetModifyDeadlineAckIds()) > 0:
			return nil
		}
		if s.answersPings {
			if err := s.send(&pubsubpb.StreamingPullResponse{}); err != nil {
				return err
			}
		}
	}
}

func (s *turnStream) SendMsg(m any) error {
	over := s.turns.take(s)
	err := s.send(m)
	if err == nil {
		s.turns.rest(s, over)
	}
	return err
}

func (s *turnStream) send(m any) error {
	s.sends.Lock()
	defer s.sends.Unlock()
	return s.ServerStream.SendMsg(m)
}

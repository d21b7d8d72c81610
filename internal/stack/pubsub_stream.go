package stack

import (
	"sync"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
)

// pullStream answers the keep-alives of a streaming pull itself.
//
// The fake answers them while it holds the lock of the whole server, by handing the answer to the goroutine that sends. When the
// connection broke a moment before, that goroutine is gone, nobody takes the answer, and the fake never answers anything again.
type pullStream struct {
	grpc.ServerStream

	mu     sync.Mutex // gRPC allows one sender at a time, and now there are two
	opened bool       // the first request is the subscription; used by the one receiver only
}

func (s *pullStream) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ServerStream.SendMsg(m)
}

func (s *pullStream) RecvMsg(m any) error {
	for {
		if err := s.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		req, ok := m.(*pubsubpb.StreamingPullRequest)
		if !ok || !s.opened || len(req.GetAckIds())+len(req.GetModifyDeadlineAckIds()) > 0 {
			s.opened = true
			return nil
		}
		if err := s.SendMsg(&pubsubpb.StreamingPullResponse{}); err != nil {
			return err
		}
	}
}

package rig

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// A reply counts as lost, which excuses a duplicate, where its own publisher had hung up before it or the reply could not be
// written, and nowhere else: not for another message, nor for one whose publisher hung up after it was told.
func TestOnlyTheReplyThatNobodyHeardIsLost(t *testing.T) {
	t.Parallel()
	lost := map[string]bool{}
	b := NewBroker(rand.New(rand.NewPCG(1, 1)), func(_ time.Time, a devstack.PublishAnswer) { lost[a.Stored[0]] = a.ReplyLost })
	b.handOn = func(string, *pubsubpb.PubsubMessage) error { return nil }
	take := func(name string, store, reply func(hangUp func()) error) {
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		b.take(ctx, "domain", &pubsubpb.PubsubMessage{}, func() (string, error) { return name, store(hangUp) },
			func(codes.Code) error { return reply(hangUp) })
	}
	stays := func(func()) error { return nil }
	leaves := func(hangUp func()) error { hangUp(); return nil }
	take("told", stays, stays)
	take("hung up before", leaves, stays)
	take("cannot be told", stays, func(func()) error { return errors.New("broken pipe") })
	take("hung up after", stays, leaves)
	take("told beside", stays, stays)
	require.Equal(t, map[string]bool{"told": false, "hung up before": true, "cannot be told": true, "hung up after": false, "told beside": false}, lost)
}

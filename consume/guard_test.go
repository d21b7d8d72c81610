package consume_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"github.com/alicebob/miniredis/v2"
	serverpkg "github.com/alicebob/miniredis/v2/server"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

// Pub/Sub's message settles without an adapter.
var _ consume.Message = (*pubsub.Message)(nil)

type recorder struct {
	mu          sync.Mutex
	acks, nacks int
}

func (r *recorder) Ack()  { r.mu.Lock(); r.acks++; r.mu.Unlock() }
func (r *recorder) Nack() { r.mu.Lock(); r.nacks++; r.mu.Unlock() }

func newGuard(t *testing.T) (*consume.Guard, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	rdb, err := consume.NewClient("redis://" + server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	guard, err := consume.New(rdb, "mailer", consume.Options{Lease: 300 * time.Millisecond})
	require.NoError(t, err)
	return guard, server
}

func TestHandleSettles(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		eventID   string
		prepare   func(ctx context.Context, t *testing.T, g *consume.Guard, id uuid.UUID, s *miniredis.Miniredis)
		handler   error
		outcome   consume.Outcome
		ack, runs bool
		err       error
	}{
		"success": {outcome: consume.Processed, ack: true, runs: true},
		"duplicate": {
			prepare: func(ctx context.Context, t *testing.T, g *consume.Guard, id uuid.UUID, _ *miniredis.Miniredis) {
				t.Helper()
				_, err := g.Process(ctx, id.String(), func(context.Context) error { return nil })
				require.NoError(t, err)
			},
			outcome: consume.Duplicate, ack: true,
		},
		"failure": {handler: boom, outcome: consume.Failed, runs: true, err: boom},
		"at work elsewhere": {
			prepare: func(_ context.Context, t *testing.T, _ *consume.Guard, id uuid.UUID, s *miniredis.Miniredis) {
				t.Helper()
				require.NoError(t, s.Set("pf:evt:processed:mailer:"+id.String(), "processing:x:1:elsewhere"))
			},
			outcome: consume.InProgress, err: consume.ErrInProgress,
		},
		"redis away": {
			prepare: func(_ context.Context, _ *testing.T, _ *consume.Guard, _ uuid.UUID, s *miniredis.Miniredis) {
				s.Close()
			},
			outcome: consume.Unavailable, err: consume.ErrUnavailable,
		},
		"no event id":     {eventID: "none", outcome: consume.Invalid, err: consume.ErrEventID},
		"not an event id": {eventID: "42", outcome: consume.Invalid, err: consume.ErrEventID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guard, server := newGuard(t)
			id := uuid.Must(uuid.NewV7())
			if tc.prepare != nil {
				tc.prepare(t.Context(), t, guard, id, server)
			}
			eventID := id.String()
			if tc.eventID != "" {
				eventID = tc.eventID
			}
			msg, ran := &recorder{}, false
			outcome, err := guard.Handle(t.Context(), msg, eventID, func(context.Context) error {
				ran = true
				return tc.handler
			})
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.outcome, outcome)
			require.Equal(t, tc.runs, ran)
			if tc.ack {
				require.Equal(t, &recorder{acks: 1}, msg)
			} else {
				require.Equal(t, &recorder{nacks: 1}, msg)
			}
		})
	}
}

// The first delivery of the event was killed. The second waits for its lease to
// end and handles the event: given back instead, it would use up its deliveries.
func TestHandleOutlastsAKilledWorker(t *testing.T) {
	t.Parallel()
	guard, server := newGuard(t)
	id := uuid.Must(uuid.NewV7())
	key := "pf:evt:processed:mailer:" + id.String()
	require.NoError(t, server.Set(key, "processing:x:1:killed"))
	asked := make(chan struct{}, 100)
	server.Server().SetPreHook(func(*serverpkg.Peer, string, ...string) bool {
		asked <- struct{}{}
		return false
	})
	go func() {
		<-asked
		server.Del(key) // the lease ends
	}()
	msg := &recorder{}
	outcome, err := guard.Handle(t.Context(), msg, id.String(), func(context.Context) error { return nil })
	require.NoError(t, err)
	require.Equal(t, consume.Processed, outcome)
	require.Equal(t, &recorder{acks: 1}, msg)
}

func TestNamesThatCannotBeKeysAreRefused(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb, err := consume.NewClient("redis://" + server.Addr())
	require.NoError(t, err)
	defer rdb.Close()
	_, err = consume.New(rdb, "mail:er", consume.Options{})
	require.Error(t, err)
	_, err = consume.New(nil, "mailer", consume.Options{})
	require.Error(t, err)
}

func TestCheckAndMarkIsReachable(t *testing.T) {
	t.Parallel()
	guard, server := newGuard(t)
	id := uuid.Must(uuid.NewV7())
	already, err := guard.CheckAndMarkProcessed(t.Context(), id, 720*time.Hour)
	require.NoError(t, err)
	require.False(t, already)
	require.True(t, server.Exists("pf:evt:processed:mailer:"+id.String()))
	already, err = guard.CheckAndMarkProcessed(t.Context(), id, 720*time.Hour)
	require.NoError(t, err)
	require.True(t, already)
	require.NoError(t, guard.Delete(t.Context(), id))
	require.False(t, server.Exists("pf:evt:processed:mailer:"+id.String()))
}

package nats_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	natspublisher "github.com/outboxctl/outboxctl/dispatch/nats"
	"github.com/outboxctl/outboxctl/internal/outboxtest/natstest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, natstest.Broker(func(t *testing.T, s *natstest.Server, subjects map[string]string) dispatch.Publisher {
		conn, err := nats.Connect(s.ClientURL(), nats.ReconnectBufSize(-1))
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		p, err := natspublisher.New(conn, subjects)
		require.NoError(t, err)
		return p
	}))
}

// A connection that buffers would store what was given up.
func TestRefusesABufferingConnection(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	_, err = natspublisher.New(conn, nil)
	require.ErrorContains(t, err, "ReconnectBufSize(-1)")
}

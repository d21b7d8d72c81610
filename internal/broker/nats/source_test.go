package nats_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/outboxtest/natstest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/sourcetest"
)

func TestSource(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	c := connect(t, nats.Config{URL: s.ClientURL()})
	topics := map[string]string{"orders": "orders"}
	_, err := c.Ensure(t.Context(), broker.EnsureParams{Plan: c.Plan(topics, nil)})
	require.NoError(t, err)
	sourcetest.Run(t, c.NewPublisher(topics), c, "orders-sub")
}

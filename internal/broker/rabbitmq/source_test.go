package rabbitmq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/outboxtest/rabbittest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/sourcetest"
)

func TestSource(t *testing.T) {
	t.Parallel()
	c := connect(t, rabbitmq.Config{URL: node.URL(rabbittest.Admin)})
	topics := map[string]string{"orders": "received"}
	_, err := c.Ensure(t.Context(), broker.EnsureParams{Plan: c.Plan(topics, nil)})
	require.NoError(t, err)
	sourcetest.Run(t, c.NewPublisher(topics), c, "received-sub")
}

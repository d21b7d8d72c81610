package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

func TestClassOf(t *testing.T) {
	t.Parallel()
	answer := func(code int) error { return &amqp.Error{Code: code} }
	for _, tc := range []struct {
		class dispatch.Class
		code  string
		err   error
	}{
		{dispatch.Retryable, "connection", io.EOF},
		{dispatch.Retryable, "connection", errors.New("dial tcp: connection refused")},
		{dispatch.Retryable, "connection", amqp.ErrClosed},
		{dispatch.Retryable, "timeout", context.DeadlineExceeded},
		{dispatch.Retryable, "320", answer(320)},
		{dispatch.Retryable, "501", answer(501)},
		{dispatch.Retryable, "541", answer(541)},
		{dispatch.Retryable, "nack", errNack},
		{dispatch.Misconfigured, "404", answer(404)},
		{dispatch.Misconfigured, "312", answer(312)},
		{dispatch.Misconfigured, "403", answer(403)},
		{dispatch.Misconfigured, "403", amqp.ErrCredentials},
		{dispatch.Misconfigured, "530", answer(530)},
		{dispatch.Refused, "406", answer(406)},
	} {
		f := failure(fmt.Errorf("publish: %w", tc.err))
		require.Equal(t, tc.class.String()+" "+tc.code, f.Class.String()+" "+f.Code, tc.err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orders", "shop.orders", "pf-domain-events"} {
		require.NoError(t, CheckName(broker.KindTopic, name))
	}
	for _, name := range []string{"", "amq.direct", "a*", "#", "{topic}", "a\n"} {
		require.Error(t, CheckName(broker.KindTopic, name), name)
	}
	require.NoError(t, CheckName(broker.KindSubscription, "orders-sub"))
	require.Error(t, CheckName(broker.KindSubscription, ""))
	for template, key := range map[string]string{
		"{topic}.{event_type}": "o.#", "{event_type}": "#", "fixed": "fixed", "{topic}": "o", "x-{event_type}": "#", "{namespace}.{topic}.{event_type}": "#.o.#",
	} {
		require.Equal(t, key, bindingKey(template, "o"), template)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost", "http://a", "amqp://"} {
		require.Error(t, CheckURL(url), url)
	}
	c, err := Connect(Config{URL: "amqps://user:secret@mq:5671/shop"})
	require.NoError(t, err)
	require.Equal(t, "RabbitMQ (mq:5671, virtual host shop)", c.String())
}

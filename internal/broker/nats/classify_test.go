package nats

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

func TestClassOf(t *testing.T) {
	t.Parallel()
	api := func(code jetstream.ErrorCode, text string) error {
		return &jetstream.APIError{ErrorCode: code, Description: text}
	}
	for _, tc := range []struct {
		class dispatch.Class
		code  string
		err   error
	}{
		{dispatch.Retryable, "connection", nats.ErrDisconnected},
		{dispatch.Retryable, "connection", fmt.Errorf("anything else")},
		{dispatch.Retryable, "timeout", nats.ErrTimeout},
		{dispatch.Retryable, "timeout", context.DeadlineExceeded},
		{dispatch.Retryable, "10023", api(10023, "insufficient resources")},
		{dispatch.Retryable, "10008", api(10008, "JetStream system temporarily unavailable")},
		{dispatch.Retryable, "10009", api(10009, "JetStream cluster can not handle request")},
		{dispatch.Retryable, "10077", api(10077, "no space left on device")},
		{dispatch.Retryable, "12345", api(12345, "unknown")},
		{dispatch.Misconfigured, "no_responders", nats.ErrNoResponders},
		{dispatch.Misconfigured, "no_responders", jetstream.ErrNoStreamResponse},
		{dispatch.Misconfigured, "10059", jetstream.ErrStreamNotFound},
		{dispatch.Misconfigured, "permissions_violation", nats.ErrPermissionViolation},
		{dispatch.Misconfigured, "authorization", nats.ErrAuthorization},
		{dispatch.Misconfigured, "authorization", nats.ErrAuthExpired},
		{dispatch.Misconfigured, "10039", jetstream.ErrJetStreamNotEnabledForAccount},
		{dispatch.Misconfigured, "10077", api(10077, "maximum bytes exceeded")},
		{dispatch.Misconfigured, "10002", api(10002, "resource limits exceeded for account")},
		{dispatch.Refused, "10054", api(10054, "message size exceeds maximum allowed")},
		{dispatch.Refused, "10097", api(10097, "header size exceeds maximum allowed of 64k")},
		{dispatch.Refused, "max_payload", nats.ErrMaxPayload},
		{dispatch.Refused, "bad_header", nats.ErrBadHeaderMsg},
	} {
		f := failure(fmt.Errorf("publish: %w", tc.err))
		require.Equal(t, tc.class.String()+" "+tc.code, f.Class.String()+" "+f.Code, tc.err)
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orders", "shop.orders.v1", "pf-domain-events", "a/b"} {
		require.NoError(t, CheckName(broker.KindTopic, name), name)
	}
	for _, name := range []string{"", "a b", "a..b", ".a", "a.", "a.*", "a.>", "$JS.x", "_INBOX.a", "a\n"} {
		require.Error(t, CheckName(broker.KindTopic, name), name)
	}
	require.NoError(t, CheckName(broker.KindSubscription, "shop-orders-sub"))
	for _, name := range []string{"", "a.b", "a b", "a*"} {
		require.Error(t, CheckName(broker.KindSubscription, name), name)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]bool{
		"a.b": true, "a.*": true, "*.b": true, "a.>": true, ">": true, "a": false, "a.b.c": false, "a.b.>": false, "b.*": false,
	} {
		require.Equal(t, want, covers(filter, "a.b"), filter)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"nats://a:4222", "tls://u:p@a,tls://b"} {
		require.NoError(t, CheckURL(url))
	}
	for _, url := range []string{"", "localhost:4222", "http://a", "nats://"} {
		require.Error(t, CheckURL(url), url)
	}
	c, err := Connect(Config{URL: "nats://user:secret@a:4222,nats://b:4222"})
	require.NoError(t, err)
	require.Equal(t, "NATS (a:4222, b:4222)", c.String())
}

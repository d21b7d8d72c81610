package rabbitmq_test

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/outboxtest/certtest"
)

// A node behind TLS proves itself by a certificate of ours, and the account by a password that may change in its file.
func TestTLSAndPasswordFile(t *testing.T) {
	t.Parallel()
	node.Need(t)
	ca, pair := certtest.Certificate(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", node.Addr())
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
	topic, file := node.Topic(t, nil), filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("wrong\n"), 0o600))
	publisher := func(ca string) dispatch.Publisher {
		settings := map[string]string{
			"rabbitmq.url": "amqps://" + listener.Addr().String() + "/", "rabbitmq.username": "outbox", "rabbitmq.password_file": file,
			"rabbitmq.tls_ca": ca, "rabbitmq.exchange": rabbitmq.DefaultExchange, "rabbitmq.routing_key": rabbitmq.DefaultRoutingKey,
		}
		b, err := rabbitmq.Kind().Open(t.Context(), broker.Params{Setting: func(name string) string { return settings[name] }})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b.NewPublisher(map[string]string{"t": topic})
	}
	p := publisher(ca)
	requireVerdict(t, dispatch.Misconfigured, "403", p.Publish(t.Context(), "t", messages("wrong", 1, 10)))
	require.NoError(t, os.WriteFile(file, []byte("outbox\n"), 0o600))
	require.NoError(t, p.Publish(t.Context(), "t", messages("right", 1, 10))[0].Err)
	requireVerdict(t, dispatch.Misconfigured, "tls", publisher("").Publish(t.Context(), "t", messages("strange", 1, 10)))
}

// Package natstest runs NATS servers inside the test's process, and the conformance suite of
// publishers on them.
package natstest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/gatetest"
)

// Server is one that can be stopped and started again.
type Server struct {
	*server.Server
	options server.Options
}

// Start starts a server with JetStream, which ends with the test. change, which may be nil, sees
// its options before.
func Start(t testing.TB, change func(*server.Options)) *Server {
	t.Helper()
	o := server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(),
		NoLog: true, NoSigs: true}
	if change != nil {
		change(&o)
	}
	s := &Server{options: o}
	s.Again(t)
	s.options.Port = s.Addr().(*net.TCPAddr).Port
	t.Cleanup(s.Stop)
	return s
}

// Again starts a server that was stopped, with what it has stored, at the same address.
func (s *Server) Again(t testing.TB) {
	t.Helper()
	o := s.options
	var err error
	s.Server, err = server.NewServer(&o)
	require.NoError(t, err)
	s.Server.Start()
	require.True(t, s.ReadyForConnections(30*time.Second), "the NATS server did not start")
}

// Stop ends the server.
func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

// Admin is a client beside the one under test.
func Admin(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, nats.Timeout(time.Minute), nats.ReconnectWait(20*time.Millisecond), nats.MaxReconnects(-1))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)
	return js
}

// Stream makes a stream.
func Stream(t testing.TB, js jetstream.JetStream, cfg jetstream.StreamConfig) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
}

// Stored is what a stream holds, as the messages it was made of.
func Stored(t testing.TB, js jetstream.JetStream, stream string) (out []dispatch.Message) {
	t.Helper()
	st, err := js.Stream(context.Background(), stream)
	require.NoError(t, err)
	state := st.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := st.GetMsg(context.Background(), seq)
		require.NoError(t, err)
		got := dispatch.Message{Data: m.Data, Attributes: map[string]string{}}
		for name, values := range m.Header {
			switch name {
			case jetstream.MsgIDHeader:
				got.EventID = values[0]
			case "ordering_key":
				got.OrderingKey = values[0]
			default:
				got.Attributes[name] = values[0]
			}
		}
		out = append(out, got)
	}
	return out
}

// What a server answers, by class.
const (
	tooLarge     = `{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`
	insufficient = `{"error":{"code":503,"err_code":10023,"description":"insufficient resources"}}`
	full         = `{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}`
)

// gate stands between the subject that is published to and the stream. What passes it keeps the
// publisher's reply subject, so that the acknowledgement is the server's; otherwise the gate
// answers in the server's words.
type gate struct{ *gatetest.Gate[string] }

func (g gate) pass(conn *nats.Conn, m *nats.Msg) {
	fail, held := g.Judge(m.Header.Get(jetstream.MsgIDHeader))
	if held != nil {
		held()
	}
	if fail != "" {
		_ = m.Respond([]byte(fail))
		return
	}
	_ = conn.PublishMsg(&nats.Msg{Subject: "stored." + m.Subject, Reply: m.Reply, Header: m.Header,
		Data: m.Data})
}

// Broker is a server with a publisher, for a test.
func Broker(
	open func(t *testing.T, s *Server, subjects map[string]string) dispatch.Publisher,
) func(*testing.T) dispatchtest.Broker {
	return func(t *testing.T) dispatchtest.Broker {
		t.Helper()
		s := Start(t, nil)
		js := Admin(t, s.ClientURL())
		Stream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"stored.orders"}})
		g := gate{gatetest.New(map[dispatch.Class]string{
			dispatch.Retryable: insufficient, dispatch.Refused: tooLarge,
			dispatch.Misconfigured: full,
		})}
		_, err := js.Conn().Subscribe("orders", func(m *nats.Msg) { g.pass(js.Conn(), m) })
		require.NoError(t, err)
		require.NoError(t, js.Conn().Flush())
		return g.Broker(dispatchtest.Broker{
			Publisher: gated{open(t, s, map[string]string{
				"orders": "orders", "behind": "stored.orders", "missing": "nowhere",
			})},
			Topic: "orders", MissingTopic: "missing",
			Stored: func() []dispatch.Message { return Stored(t, js, "ORDERS") },
			Away: func() func() {
				s.Stop()
				return func() { s.Again(t) }
			},
		})
	}
}

// gated answers Ready for the gate's subject by the stream behind it.
type gated struct{ dispatch.Publisher }

func (g gated) Ready(ctx context.Context, topic string) error {
	if topic == "orders" {
		topic = "behind"
	}
	return g.Publisher.Ready(ctx, topic)
}

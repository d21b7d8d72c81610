package nats_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/outboxtest/natstest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Clocks of the server that it starts for its process.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.init.0.func1"))
}

func connect(t testing.TB, cfg nats.Config) *nats.Client {
	t.Helper()
	cfg.PublishTimeout = time.Minute // 2501 messages of a key, one by one, on a machine with other work
	client, err := nats.Connect(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func messages(prefix string, n, size int) []dispatch.Message {
	msgs := make([]dispatch.Message, n)
	for i := range msgs {
		id := fmt.Sprintf("%s-%d", prefix, i)
		msgs[i] = dispatch.Message{EventID: id, Data: make([]byte, size), Attributes: map[string]string{"event_id": id}}
	}
	return msgs
}

// requireVerdict checks the first result's class and code.
func requireVerdict(t *testing.T, class dispatch.Class, code string, results []dispatch.Result) {
	t.Helper()
	require.Error(t, results[0].Err)
	require.Equal(t, class.String()+" "+code, dispatch.ClassOf(results[0].Err).String()+" "+dispatch.CodeOf(results[0].Err), results[0].Err)
}

func TestPublisherConformance(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, natstest.Broker(func(t *testing.T, s *natstest.Server, subjects map[string]string) dispatch.Publisher {
		return connect(t, nats.Config{URL: s.ClientURL()}).NewPublisher(subjects)
	}))
}

// What a real server says of each thing that can be wrong with a message or a topic.
func TestAnswersOfAServer(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "admin"}, {
			Username: "limited", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"ok"}}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			},
		}, {
			Username: "deaf", Password: "x", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{">"}}, Subscribe: &server.SubjectPermission{Deny: []string{">"}},
			},
		}}
	})
	admin := fmt.Sprintf("nats://admin:admin@%s", s.Addr())
	js := natstest.Admin(t, admin)
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"small"}, MaxMsgSize: 1000})
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "OPEN", Subjects: []string{"denied", "ok"}})
	topics := map[string]string{"small": "small", "full": "full", "none": "none", "bad": "a b", "denied": "denied", "ok": "ok"}
	p := connect(t, nats.Config{URL: admin}).NewPublisher(topics)
	ctx := t.Context()

	requireVerdict(t, dispatch.Refused, "10054", p.Publish(ctx, "small", messages("s", 1, 2000)))
	requireVerdict(t, dispatch.Refused, "max_payload", p.Publish(ctx, "small", messages("p", 1, 2<<20)))
	require.NoError(t, p.Publish(ctx, "full", messages("first", 1, 10))[0].Err)
	requireVerdict(t, dispatch.Misconfigured, "10077", p.Publish(ctx, "full", messages("second", 1, 10)))
	requireVerdict(t, dispatch.Misconfigured, "no_responders", p.Publish(ctx, "none", messages("n", 1, 10)))
	requireVerdict(t, dispatch.Misconfigured, "bad_subject", p.Publish(ctx, "bad", messages("n", 1, 10)))
	requireVerdict(t, dispatch.Misconfigured, "no_responders", p.Publish(ctx, "not configured", messages("n", 1, 10)))
	wide := messages("h", 1, 10)
	for i := range 70 {
		wide[0].Attributes[fmt.Sprintf("h%d", i)] = strings.Repeat("x", 1000)
	}
	requireVerdict(t, dispatch.Refused, "10097", p.Publish(ctx, "ok", wide))

	limited := connect(t, nats.Config{URL: fmt.Sprintf("nats://limited:x@%s", s.Addr())}).NewPublisher(topics)
	requireVerdict(t, dispatch.Misconfigured, "permissions_violation", limited.Publish(ctx, "denied", messages("d", 3, 10)))
	require.NoError(t, limited.Publish(ctx, "ok", messages("d", 1, 10))[0].Err)
	require.NoError(t, limited.Ready(ctx, "ok"), "an account that may only publish is a good one")
	deaf := connect(t, nats.Config{URL: fmt.Sprintf("nats://deaf:x@%s", s.Addr())}).NewPublisher(topics)
	requireVerdict(t, dispatch.Misconfigured, "permissions_violation", deaf.Publish(ctx, "ok", messages("e", 1, 10)))
	wrong := connect(t, nats.Config{URL: fmt.Sprintf("nats://limited:wrong@%s", s.Addr())}).NewPublisher(topics)
	results := wrong.Publish(ctx, "ok", messages("w", 1, 10))
	requireVerdict(t, dispatch.Misconfigured, "authorization", results)
	require.ErrorIs(t, results[0].Err, dispatch.ErrUnsent)
}

// A header that NATS would change is refused, and only that message.
func TestHeadersArriveOrAreRefused(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	js := natstest.Admin(t, s.ClientURL())
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}})
	p := connect(t, nats.Config{URL: s.ClientURL()}).NewPublisher(map[string]string{"orders": "orders"})
	for i, tc := range []struct {
		name, value string
		fine        bool
	}{
		{"plain", "value", true}, {"inner", "a  b\tc", true}, {"empty", "", true}, {"unicode", "naïve ✓", true}, {"quoted", `"x: y"`, true},
		{"first", " value", false}, {"last", "value\t", false}, {"break", "a\nb", false}, {"return", "a\rb", false},
		{"with blank", "x", false}, {"with:colon", "x", false}, {"ümlaut", "x", false}, {"a/b", "x", false},
	} {
		before := natstest.Stored(t, js, "ORDERS")
		msg := messages(fmt.Sprint("m", i), 1, 10)
		msg[0].Attributes[tc.name] = tc.value
		results := p.Publish(t.Context(), "orders", append(msg, messages(fmt.Sprint("beside", i), 1, 10)...))
		require.NoError(t, results[1].Err)
		if !tc.fine {
			requireVerdict(t, dispatch.Rejected, "bad_header", results)
			require.Len(t, natstest.Stored(t, js, "ORDERS"), len(before)+1)
			continue
		}
		require.NoError(t, results[0].Err, tc.name)
		require.Equal(t, msg[0], natstest.Stored(t, js, "ORDERS")[len(before)])
	}
}

// The id of an event makes a stream store it once, and its acknowledgement names the stored one.
func TestDedupe(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	js := natstest.Admin(t, s.ClientURL())
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}})
	topics := map[string]string{"orders": "orders"}
	p := connect(t, nats.Config{URL: s.ClientURL()}).NewPublisher(topics)
	for range 2 {
		require.Equal(t, []dispatch.Result{{MessageID: "ORDERS/1"}}, p.Publish(t.Context(), "orders", messages("same", 1, 10)))
	}
	again := messages("same", 1, 10)
	again[0].CopyOf = "ORDERS/1"
	for range 2 {
		require.Equal(t, []dispatch.Result{{MessageID: "ORDERS/2"}}, p.Publish(t.Context(), "orders", again), "a copy is stored, once")
	}
	plain := connect(t, nats.Config{URL: s.ClientURL(), NoDedupe: true}).NewPublisher(topics)
	for i := range 2 {
		require.Equal(t, []dispatch.Result{{MessageID: fmt.Sprint("ORDERS/", i+3)}}, plain.Publish(t.Context(), "orders", messages("same", 1, 10)))
	}
}

// untilReady asks until the topic can be published to.
func untilReady(t *testing.T, p dispatch.Publisher, topic string) {
	t.Helper()
	for p.Ready(t.Context(), topic) != nil {
		require.NoError(t, t.Context().Err())
	}
}

// What is offered while the server is away is answered at once, costs nothing and is not stored later.
func TestServerAway(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	natstest.Stream(t, natstest.Admin(t, s.ClientURL()), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}})
	p := connect(t, nats.Config{URL: s.ClientURL()}).NewPublisher(map[string]string{"orders": "orders"})
	require.NoError(t, p.Publish(t.Context(), "orders", messages("before", 1, 10))[0].Err)
	s.Stop()
	for p.Ready(t.Context(), "orders") == nil { // the connection learns of it by itself
		require.NoError(t, t.Context().Err())
	}
	for _, r := range p.Publish(t.Context(), "orders", messages("away", 3, 10)) {
		require.Equal(t, dispatch.Retryable, dispatch.ClassOf(r.Err))
		require.ErrorIs(t, r.Err, dispatch.ErrUnsent)
		require.NotContains(t, r.Err.Error(), "buffer", "the reason is the connection")
	}
	s.Again(t)
	untilReady(t, p, "orders")
	require.NoError(t, p.Publish(t.Context(), "orders", messages("after", 1, 10))[0].Err)
	var ids []string
	for _, m := range natstest.Stored(t, natstest.Admin(t, s.ClientURL()), "ORDERS") {
		ids = append(ids, m.EventID)
	}
	require.Equal(t, []string{"before-0", "after-0"}, ids)
}

// The first connection is made by the first call, and again by each until one succeeds.
func TestServerComesLater(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	url := s.ClientURL()
	s.Stop()
	p := connect(t, nats.Config{URL: url}).NewPublisher(map[string]string{"orders": "orders"})
	requireVerdict(t, dispatch.Retryable, "connection", p.Publish(t.Context(), "orders", messages("early", 1, 10)))
	s.Again(t)
	natstest.Stream(t, natstest.Admin(t, url), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}})
	untilReady(t, p, "orders")
	require.NoError(t, p.Publish(t.Context(), "orders", messages("late", 1, 10))[0].Err)
}

// A call that has ended leaves nothing behind that is sent.
func TestEndedCallSendsNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	js := natstest.Admin(t, s.ClientURL())
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}})
	p := connect(t, nats.Config{URL: s.ClientURL()}).NewPublisher(map[string]string{"orders": "orders"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range p.Publish(ctx, "orders", messages("ended", 3, 10)) {
		require.ErrorIs(t, r.Err, dispatch.ErrUnsent)
	}
	require.Empty(t, natstest.Stored(t, js, "ORDERS"))
}

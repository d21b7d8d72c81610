package nats_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/outboxtest/certtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/natstest"
)

func TestEnsureAndList(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	js := natstest.Admin(t, s.ClientURL())
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "EVERYTHING", Subjects: []string{"shop.*"}})
	c := connect(t, nats.Config{URL: s.ClientURL()})
	plan := c.Plan(map[string]string{"orders": "shop.orders", "billing": "bills", "money": "bills"}, map[string]string{"billing": "accounting"})
	outcomes := func(p broker.EnsureParams) (got []string) {
		p.Plan = plan
		actions, err := c.Ensure(t.Context(), p)
		require.NoError(t, err)
		for _, a := range actions {
			if a.Outcome == broker.OutcomeExists {
				require.Empty(t, a.Detail, "doctor would warn of it")
			}
			got = append(got, a.Kind+" "+a.Name+" "+string(a.Outcome))
		}
		return got
	}
	require.Equal(t, []string{
		"topic bills missing", "subscription accounting missing", "topic shop.orders exists", "subscription shop-orders-sub missing",
	}, outcomes(broker.EnsureParams{DryRun: true}))
	require.Equal(t, []string{"topic bills created", "topic shop.orders exists"}, outcomes(broker.EnsureParams{TopicsOnly: true}))
	require.Equal(t, []string{
		"topic bills exists", "subscription accounting created", "topic shop.orders exists", "subscription shop-orders-sub created",
	}, outcomes(broker.EnsureParams{Ordered: true}))
	require.Equal(t, []string{
		"topic bills exists", "subscription accounting exists", "topic shop.orders exists", "subscription shop-orders-sub exists",
	}, outcomes(broker.EnsureParams{Ordered: true}))

	plan = append(plan, c.Plan(map[string]string{"lost": "nowhere"}, nil)...)
	topics, err := c.List(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, []broker.Topic{
		{Topic: "billing", Name: "bills", State: broker.TopicReady, Subscriptions: []string{"accounting"}},
		{Topic: "money", Name: "bills", State: broker.TopicReady, Subscriptions: []string{"accounting"}},
		{Topic: "orders", Name: "shop.orders", State: broker.TopicReady, Subscriptions: []string{"shop-orders-sub"}},
		{Topic: "lost", Name: "nowhere", State: broker.TopicMissing, Subscriptions: []string{}},
	}, topics)
}

// What exists otherwise is told and left alone.
func TestEnsureLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	js := natstest.Admin(t, s.ClientURL())
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "orders", Subjects: []string{"other"}})
	natstest.Stream(t, js, jetstream.StreamConfig{Name: "B", Subjects: []string{"bills"}})
	_, err := js.CreateConsumer(t.Context(), "B", jetstream.ConsumerConfig{Durable: "bills-sub", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	c := connect(t, nats.Config{URL: s.ClientURL()})
	actions, err := c.Ensure(t.Context(), broker.EnsureParams{
		Plan: c.Plan(map[string]string{"orders": "orders", "billing": "bills"}, nil), Ordered: true,
	})
	require.ErrorIs(t, err, broker.ErrIncomplete)
	require.Len(t, actions, 3)
	require.Equal(t, broker.OutcomeExists, actions[0].Outcome)
	require.Equal(t, broker.OutcomeDiffers, actions[1].Outcome, "not in order")
	require.Equal(t, broker.OutcomeFailed, actions[2].Outcome, "the name of its stream is taken")
}

// A server that is away is an error, not an answer.
func TestTopicsOfAServerAway(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	c := connect(t, nats.Config{URL: s.ClientURL()})
	s.Stop()
	plan := c.Plan(map[string]string{"orders": "orders"}, nil)
	_, err := c.List(t.Context(), plan)
	require.Error(t, err)
	why, _ := c.Explain(err)
	require.Equal(t, "it does not answer", why)
	_, err = c.Ensure(t.Context(), broker.EnsureParams{Plan: plan})
	require.Error(t, err)
	require.NotErrorIs(t, err, broker.ErrIncomplete)
}

// The server proves itself by a certificate of ours, and the password stands in a file that may change.
func TestTLSAndPasswordFile(t *testing.T) {
	t.Parallel()
	ca, pair := certtest.Certificate(t)
	s := natstest.Start(t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		o.Username, o.Password = "outbox", "correct"
	})
	url := "tls://" + s.Addr().String()
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("wrong\n"), 0o600))
	topics := map[string]string{"orders": "orders"}
	read := func() (string, error) {
		raw, err := os.ReadFile(password)
		return strings.TrimSpace(string(raw)), err
	}
	p := connect(t, nats.Config{URL: url, Username: "outbox", Password: read, Files: broker.Files{CA: ca}}).NewPublisher(topics)
	requireVerdict(t, dispatch.Misconfigured, "authorization", p.Publish(t.Context(), "orders", messages("a", 1, 10)))
	require.NoError(t, os.WriteFile(password, []byte("correct\n"), 0o600))
	requireVerdict(t, dispatch.Misconfigured, "no_responders", p.Publish(t.Context(), "orders", messages("a", 1, 10)))

	strange := connect(t, nats.Config{URL: url, Username: "outbox", Password: read}).NewPublisher(topics)
	requireVerdict(t, dispatch.Misconfigured, "tls", strange.Publish(t.Context(), "orders", messages("a", 1, 10)))
	_, err := nats.Connect(nats.Config{URL: url, Files: broker.Files{CA: password}})
	require.ErrorContains(t, err, "holds no certificate")
	require.NoError(t, os.Remove(password))
	_, err = nats.Connect(nats.Config{URL: url, Username: "outbox", Password: read})
	require.ErrorIs(t, err, os.ErrNotExist)
}

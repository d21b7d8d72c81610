package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/kafka"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest/rabbittest"
	"github.com/outboxctl/outboxctl/internal/wait"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	toPubSub = "pubsub"
	toNATS   = "nats"
	toRabbit = "rabbitmq"
	toExec   = "exec"
	// commands is how many events a command gets at most, each as a process.
	commands = 2_000
)

// Brokers are the destinations that events can go to.
func Brokers() []string { return []string{toPubSub, toNATS, "kafka", toRabbit, "http", toExec} }

// destination is where a trial's events go: a server that the trial starts.
type destination struct {
	// env and args are the settings by which the program reaches it.
	env, args []string
	// live says that the recorder sees each message arrive; otherwise collect brings it all of them.
	live    bool
	collect func(ctx context.Context)
	// subscription is one with everything that was published, where there are subscriptions.
	subscription string
	// fake is a client of the fake, where it is one.
	fake *pubsub.Client
}

// openDestination starts one.
func openDestination(ctx context.Context, t *Trial, name string) (d destination) {
	d = destination{env: []string{"OUTBOXCTL_BROKER=" + name}, collect: func(context.Context) {}}
	switch name {
	case toPubSub:
		t.startFake(ctx, &d)
	case "http":
		t.startService(&d)
	case toExec:
		t.startCommand(&d)
	case toNATS:
		dir := filepath.Join(t.Dir, name)
		n := rig.Must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true}))
		n.Start()
		t.OnClose(func() error { n.Shutdown(); n.WaitForShutdown(); return nil })
		n.ReadyForConnections(time.Minute)
		d.env = append(d.env, "OUTBOXCTL_NATS_URL="+n.ClientURL())
		t.readAfterwards(ctx, &d, rig.Must(nats.Connect(nats.Config{URL: n.ClientURL()})))
	case "kafka":
		cluster := rig.Must(kfake.NewCluster(kfake.NumBrokers(1)))
		t.OnClose(func() error { cluster.Close(); return nil })
		addr := cluster.ListenAddrs()[0]
		d.env = append(d.env, "OUTBOXCTL_KAFKA_BROKERS="+addr)
		t.readAfterwards(ctx, &d, rig.Must(kafka.Connect(kafka.Config{Brokers: addr, Partitions: 4, Replication: 1})))
	case toRabbit:
		node := rig.Must(rabbittest.Start())
		t.OnClose(node.Stop)
		if why := node.Absent(); why != "" {
			rig.Check(errors.New(why))
		}
		at := node.URL(rabbittest.Admin)
		d.env = append(d.env, "OUTBOXCTL_RABBITMQ_URL="+at)
		t.readAfterwards(ctx, &d, rig.Must(rabbitmq.Connect(rabbitmq.Config{URL: at})))
	}
	return d
}

// forgetEvery is after how many messages the fake is told to forget what it holds: it would keep a
// million in memory.
const forgetEvery = 20_000

// startFake starts the Pub/Sub fake, which tells the recorder what it acknowledges. It has no topic
// for payments.
func (t *Trial) startFake(ctx context.Context, d *destination) {
	fake := rig.Must(devstack.StartPubSub(ctx, devstack.PubSubParams{}))
	t.OnClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return fake.Stop(ctx)
	})
	fake.OnAnswer(func(a devstack.PublishAnswer) {
		if a.Err != nil {
			return
		}
		messages := make([]message, len(a.Messages))
		for i, m := range a.Messages {
			messages[i] = message{m.GetData(), m.GetAttributes()}
		}
		t.seen.record(messages...)
		if t.seen.count()%forgetEvery < len(messages) {
			fake.Forget()
		}
	})
	client := rig.Must(pubsub.Connect(ctx, pubsub.Config{Project: fake.Project, Emulator: fake.Addr()}))
	t.OnClose(client.Close)
	d.env = append(d.env, "OUTBOXCTL_PUBSUB_PROJECT="+fake.Project, "OUTBOXCTL_PUBSUB_EMULATOR="+fake.Addr())
	d.live, d.fake = true, client
	rig.Must(wait.Patiently(ctx, func(ctx context.Context) ([]broker.Action, error) {
		return client.Ensure(ctx, broker.EnsureParams{Plan: client.Plan(plan(), nil), TopicsOnly: true})
	}))
}

func plan() map[string]string { return map[string]string{ordersTopic: ordersAt} }

// readAfterwards creates topic and subscription at a broker, and reads it when all is published:
// meanwhile it would take the processor from what is measured.
func (t *Trial) readAfterwards(ctx context.Context, d *destination, client broker.Broker) {
	t.OnClose(client.Close)
	planned := client.Plan(plan(), nil)
	rig.Must(client.Ensure(ctx, broker.EnsureParams{Plan: planned, Ordered: t.Keys > 0}))
	d.subscription = planned[0].Subscription
	d.collect = func(ctx context.Context) {
		source := rig.Must(client.Source(ctx, broker.SourceParams{Subscription: d.subscription, Concurrency: 64}))
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		quiet := time.AfterFunc(patience, stop)
		defer quiet.Stop()
		err := source.Receive(ctx, func(m broker.Delivery) {
			t.seen.record(message{m.Body, m.Attributes})
			m.Ack()
			quiet.Reset(patience)
			if t.seen.count() >= t.emitted {
				stop()
			}
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			rig.Check(err)
		}
	}
}

// startService starts a service that records what it is posted.
func (t *Trial) startService(d *destination) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, "the request was cut off", http.StatusBadRequest)
			return
		}
		attrs := map[string]string{}
		for name := range req.Header {
			given, ours := strings.CutPrefix(strings.ToLower(name), "outbox-")
			if attr := strings.ReplaceAll(given, "-", "_"); ours && wire.IsStandardAttribute(attr) {
				attrs[attr] = req.Header.Get(name)
			}
		}
		t.seen.record(message{body, attrs})
	}))
	t.OnClose(func() error { server.Close(); return nil })
	d.live, d.args = true, []string{"--http", server.URL + "/{topic}/{event_type}"}
}

// startCommand has a command keep each event as a file.
func (t *Trial) startCommand(d *destination) {
	dir := filepath.Join(t.Dir, toExec)
	rig.Check(os.Mkdir(dir, 0o700))
	d.args = []string{"--exec", `{ printf '%s\n' "$OUTBOX_ATTRIBUTES"; cat; } > '` + dir + `'/"$OUTBOX_EVENT_ID.$OUTBOX_ATTEMPT"`}
	d.collect = func(context.Context) {
		for _, name := range rig.Must(filepath.Glob(filepath.Join(dir, "*-*.*"))) {
			head, body, _ := strings.Cut(string(rig.Must(os.ReadFile(name))), "\n")
			var attrs map[string]string
			rig.Check(json.Unmarshal([]byte(head), &attrs))
			t.seen.record(message{[]byte(body), attrs})
		}
	}
}

// brokers drains to every destination that there is.
func brokers(ctx context.Context, s *Session, p Params) *Report {
	var all []*Report
	for _, name := range Brokers() {
		if name == toRabbit && !rabbittest.Installed() {
			p.say("rabbitmq-server is not installed")
			continue
		}
		to := p
		to.Broker = name
		if name == toExec {
			to.Events = min(p.Events, commands)
		}
		p.say("brokers: %s", name)
		all = append(all, s.one(ctx, to))
	}
	all[0].Compared = all[1:]
	return all[0]
}

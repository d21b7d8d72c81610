package bench

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/kafka"
	"github.com/outboxctl/outboxctl/internal/broker/nats"
	"github.com/outboxctl/outboxctl/internal/broker/rabbitmq"
	"github.com/outboxctl/outboxctl/internal/outboxtest/rabbittest"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// commands is how many events a command gets, each as a process.
const commands = 2_000

// brokers drains to every destination that there is: a NATS server and a fake of Kafka in this
// process, a node of RabbitMQ where it is installed, and those that need no server.
func brokers(ctx context.Context, s *bench.Session) *bench.Report {
	servers := &servers{}
	defer servers.stop()
	var report *bench.Report
	for _, to := range []bench.Destination{
		{Name: "pubsub"}, {Name: "nats", Open: servers.nats}, {Name: "kafka", Open: servers.kafka}, {Name: "rabbitmq", Open: servers.rabbit},
		{Name: "http"}, {Name: "exec"},
	} {
		p := s.Params
		p.Destination = to
		if to.Name == "exec" {
			p.Events = min(p.Events, commands)
		}
		if to.Name == "rabbitmq" && !servers.hasRabbit() {
			p.Progress("rabbitmq-server is not installed")
			continue
		}
		p.Progress("brokers: %s", to.Name)
		r := must(s.One(ctx, p))
		if report == nil {
			report = r
			continue
		}
		report.Compared = append(report.Compared, r)
	}
	return report
}

type servers struct {
	node  *rabbittest.Node
	stops []func()
}

func (s *servers) stop() {
	for _, stop := range slices.Backward(s.stops) {
		stop()
	}
}

func (s *servers) then(stop func()) { s.stops = append(s.stops, stop) }

func (s *servers) nats(context.Context) (broker.Broker, error) {
	dir := rig.Must(os.MkdirTemp("", "outboxctl-bench-nats-"))
	s.then(func() { _ = os.RemoveAll(dir) })
	n := rig.Must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true}))
	n.Start()
	s.then(func() { n.Shutdown(); n.WaitForShutdown() })
	n.ReadyForConnections(time.Minute)
	return s.client(nats.Connect(nats.Config{URL: n.ClientURL()}))
}

// client has a connection closed before its server.
func (s *servers) client(c broker.Broker, err error) (broker.Broker, error) {
	rig.Check(err)
	s.then(func() { _ = c.Close() })
	return c, nil
}

func (s *servers) kafka(context.Context) (broker.Broker, error) {
	cluster := rig.Must(kfake.NewCluster(kfake.NumBrokers(1)))
	s.then(cluster.Close)
	return s.client(kafka.Connect(kafka.Config{Brokers: cluster.ListenAddrs()[0], Partitions: 4, Replication: 1}))
}

func (s *servers) hasRabbit() bool {
	s.node = rig.Must(rabbittest.Start())
	s.then(func() { _ = s.node.Stop() })
	return s.node.Absent() == ""
}

func (s *servers) rabbit(context.Context) (broker.Broker, error) {
	return s.client(rabbitmq.Connect(rabbitmq.Config{URL: s.node.URL(rabbittest.Admin)}))
}

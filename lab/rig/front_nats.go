package rig

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/codes"
)

// The stream of the front, and the accounts on its server: a publisher may not ask about streams,
// since it publishes to a gate before the stream.
const (
	natsStream = "TORTURE"
	natsStored = "stored."
	natsGate   = "gate:gate"
	natsUser   = "publisher:publisher"
)

// natsFront is a NATS server with JetStream. What publishers send comes through a gate, which hands
// it to the stream and the stream's answer back.
type natsFront struct {
	broker  *Broker
	options server.Options

	mu     sync.Mutex
	server *server.Server
	conn   *nats.Conn
	seen   map[uint64]bool // of the stream's messages, those that were recorded
	looked uint64          // up to where nothing is missing in seen
}

func startNATSFront(b *Broker, dir string) Front {
	account := func(name string, deny ...string) *server.User {
		u := &server.User{Username: name, Password: name}
		if len(deny) > 0 {
			u.Permissions = &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}}
		}
		return u
	}
	f := &natsFront{broker: b, seen: map[uint64]bool{}, options: server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(dir, "nats"), NoLog: true, NoSigs: true,
		Users: []*server.User{account("gate"), account("publisher", "$JS.API.>", natsStored+">")},
	}}
	f.start()
	f.options.Port = f.server.Addr().(*net.TCPAddr).Port
	f.conn = Must(nats.Connect("nats://"+natsGate+"@"+f.Addr(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond)))
	js := Must(jetstream.New(f.conn))
	Must(js.CreateStream(context.Background(), jetstream.StreamConfig{Name: natsStream, Subjects: []string{natsStored + ">"}}))
	for _, topic := range []string{"domain", "analytics", "notification", "billing"} {
		Must(f.conn.Subscribe("pf-"+topic+"-events", func(m *nats.Msg) { go f.pass(m) }))
	}
	Check(f.conn.Flush())
	return f
}

func (f *natsFront) start() {
	o := f.options
	f.server = Must(server.NewServer(&o))
	f.server.Start()
	if !f.server.ReadyForConnections(time.Minute) {
		Check(errors.New("the NATS server did not start"))
	}
}

func (f *natsFront) Addr() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.server.Addr().String()
}

func (f *natsFront) Env(addr string) []string {
	return []string{"OUTBOXCTL_BROKER=nats", "OUTBOXCTL_NATS_URL=nats://" + natsUser + "@" + addr}
}

func (f *natsFront) Disconnect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server.Shutdown()
	f.server.WaitForShutdown()
}

// Reconnect starts the server again, and records what the stream had stored when it ended without
// that anybody was told.
func (f *natsFront) Reconnect() error {
	f.mu.Lock()
	err := Carry(f.start)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	for !f.conn.IsConnected() {
		time.Sleep(10 * time.Millisecond) //nolint:forbidden // the library tells no other way in time
	}
	return f.catchUp()
}

func (f *natsFront) catchUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	js, err := jetstream.New(f.conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, natsStream)
	if err != nil {
		return fmt.Errorf("look at the stream: %w", err)
	}
	last := stream.CachedInfo().State.LastSeq
	for seq := f.looked + 1; seq <= last; seq++ {
		if !f.first(seq) {
			continue
		}
		stored, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return fmt.Errorf("look at message %d: %w", seq, err)
		}
		f.broker.found(stored.Subject[len(natsStored):], messageOf(stored.Header, stored.Data), stored.Time, natsID(seq))
	}
	f.looked = last
	return nil
}

// first reports whether a message of the stream was not recorded yet, and notes that it is.
func (f *natsFront) first(seq uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.seen[seq]
	f.seen[seq] = true
	return !known
}

func natsID(seq uint64) string { return fmt.Sprint(natsStream, "/", seq) }

func (f *natsFront) Stop(context.Context) error {
	f.conn.Close()
	f.Disconnect()
	return nil
}

func messageOf(h nats.Header, data []byte) *pubsubpb.PubsubMessage {
	m := &pubsubpb.PubsubMessage{Data: data, Attributes: map[string]string{}}
	for name, values := range h {
		switch name {
		case jetstream.MsgIDHeader:
		case "ordering_key":
			m.OrderingKey = values[0]
		default:
			m.Attributes[name] = values[0]
		}
	}
	return m
}

// pass hands a message to the stream, and the stream's own answer to the publisher. Where none
// comes the server has ended: whether it had stored the message is seen when it is back.
func (f *natsFront) pass(m *nats.Msg) {
	var ack *nats.Msg
	f.broker.take(context.Background(), m.Subject, messageOf(m.Header, m.Data), func() (string, error) {
		var err error
		ack, err = f.conn.RequestMsg(&nats.Msg{Subject: natsStored + m.Subject, Header: m.Header, Data: m.Data}, 10*time.Second)
		if err != nil {
			return "", err
		}
		var stored struct{ Seq uint64 }
		if err := json.Unmarshal(ack.Data, &stored); err != nil || stored.Seq == 0 {
			return "", fmt.Errorf("the stream answered %s", ack.Data)
		}
		if !f.first(stored.Seq) {
			return "", errKnown
		}
		return natsID(stored.Seq), nil
	}, func(code codes.Code) error { // which excuses nothing: the server's end is a fault of its own
		switch {
		case code == codes.OK:
			_ = m.Respond(ack.Data)
		case f.conn.IsConnected():
			_ = m.Respond(fmt.Appendf(nil, `{"error":{"code":503,"err_code":%d,"description":"%s"}}`, natsCode(code), code))
		}
		return nil
	})
}

// natsCode is how a server says what Pub/Sub says by a code.
func natsCode(code codes.Code) int {
	known := map[codes.Code]int{
		codes.InvalidArgument: 10054, codes.NotFound: 10059, codes.PermissionDenied: 10059, codes.ResourceExhausted: 10077,
	}
	return cmp.Or(known[code], 10023)
}

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/exec"
	callback "github.com/outboxctl/outboxctl/internal/broker/http"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// Destination is where the events of a run go. Zero is the Pub/Sub fake.
type Destination struct {
	// Name is that of the broker's kind. To http and exec events are handed inside the bench: a
	// service, and a command that keeps each as a file.
	Name string
	// Open returns any other one. Who gave it closes it.
	Open func(ctx context.Context) (broker.Broker, error)
}

// The kinds that need no server.
const (
	toPubSub = "pubsub"
	toHTTP   = "http"
	toExec   = "exec"
)

// The bench measures how fast a destination is, not whether that is fast enough: a slow machine gets
// the time to hand over many events in one call.
const (
	callbackTimeout = time.Minute
	publishTimeout  = 2 * callbackTimeout
	lease           = 2 * publishTimeout
)

// destination is one that is open.
type destination struct {
	broker.Broker
	topics map[string]string
	// collect brings the recorder what has arrived, where it does not see it arrive.
	collect func(ctx context.Context) error
	close   func(ctx context.Context) error
}

// open starts or connects to where the run's events go.
func (d Destination) open(ctx context.Context, r *Trial) (err error) {
	to := &r.to
	to.topics = topics()
	to.collect = func(context.Context) error { return nil }
	to.close = to.collect
	switch d.Name {
	case toPubSub:
		return r.startFake(ctx)
	case toHTTP:
		return r.startService()
	case toExec:
		return r.startCommand()
	}
	if to.Broker, err = d.Open(ctx); err != nil {
		return err
	}
	// A name of its own: nothing of another run is in it.
	to.topics = map[string]string{domainTopic: DomainTopic + "-" + uuid.NewString()[:8]}
	plan := to.Plan(to.topics, nil)
	if _, err = to.Ensure(ctx, broker.EnsureParams{Plan: plan, Ordered: r.Params.Keys > 0}); err != nil {
		return fmt.Errorf("create topic %s at %s: %w", plan[0].Name, to.Broker, err)
	}
	r.Params.Progress("topic %s stays at %s: delete it when you like", plan[0].Name, to.Broker)
	to.collect = func(ctx context.Context) error { return r.receive(ctx, plan[0].Subscription) }
	return nil
}

func (r *Trial) startFake(ctx context.Context) (err error) {
	if r.fake, err = devstack.StartPubSub(ctx, devstack.PubSubParams{}); err != nil {
		return err
	}
	r.to.close = r.fake.Stop
	client, err := pubsub.Connect(ctx, pubsub.Config{Project: r.fake.Project, Emulator: r.fake.Addr()})
	if err != nil {
		return err
	}
	r.to.Broker, r.Client = client, client
	r.to.close = func(ctx context.Context) error { return errors.Join(client.Close(), r.fake.Stop(ctx)) }
	plan := pubsub.Plan(map[string]string{domainTopic: DomainTopic}, nil)
	if _, err = wait.Patiently(ctx, func(ctx context.Context) ([]broker.Action, error) {
		return client.Ensure(ctx, broker.EnsureParams{Plan: plan, TopicsOnly: true})
	}); err != nil {
		return err
	}
	r.recorder.watch(r.fake, DomainTopic)
	return nil
}

// startService starts a service that records what it is posted.
func (r *Trial) startService() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("start the bench's service: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, "the request was cut off", http.StatusBadRequest)
			return
		}
		r.recorder.record(1, func(int) ([]byte, map[string]string) { return body, attributesOf(req.Header) })
	})}
	go func() { _ = server.Serve(listener) }() // until it is shut down
	r.to.close = server.Shutdown
	client, err := callback.New(callback.Config{Timeout: callbackTimeout, URL: "http://" + listener.Addr().String() + "/{topic}/{event_type}"})
	if err != nil {
		return err
	}
	r.to.Broker = client
	r.to.close = func(ctx context.Context) error { return errors.Join(client.Close(), server.Shutdown(ctx)) }
	return nil
}

// attributesOf are an event's attributes in the headers of its request.
func attributesOf(h http.Header) map[string]string {
	attrs := map[string]string{}
	for name := range h {
		attr := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(name), "outbox-"), "-", "_")
		if wire.IsStandardAttribute(attr) && strings.HasPrefix(name, "Outbox-") {
			attrs[attr] = h.Get(name)
		}
	}
	return attrs
}

// startCommand has a command keep each event as a file.
func (r *Trial) startCommand() error {
	dir, err := newScratchDir()
	if err != nil {
		return err
	}
	r.to.close = func(context.Context) error { return dir.remove() }
	r.to.Broker, err = exec.New(exec.Config{
		Timeout: callbackTimeout,
		Command: `{ printf '%s\n' "$OUTBOX_ATTRIBUTES"; cat; } > '` + dir.path + `'/"$OUTBOX_EVENT_ID.$OUTBOX_ATTEMPT"`,
	})
	r.to.collect = func(context.Context) error { return r.readFiles(dir.path) }
	return err
}

func (r *Trial) readFiles(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*-*.*"))
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read what the command has kept: %w", err)
		}
		head, body, _ := strings.Cut(string(text), "\n")
		var attrs map[string]string
		if err := json.Unmarshal([]byte(head), &attrs); err != nil {
			return fmt.Errorf("read what the command has kept: %w", err)
		}
		r.recorder.record(1, func(int) ([]byte, map[string]string) { return []byte(body), attrs })
	}
	return nil
}

// receive reads the run's events from a subscription, until all are there or none comes any more.
func (r *Trial) receive(ctx context.Context, subscription string) error {
	source, err := r.to.Source(ctx, broker.SourceParams{Subscription: subscription, Concurrency: 64})
	if err != nil {
		return fmt.Errorf("read subscription %s: %w", subscription, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	quiet := time.AfterFunc(Patience, stop)
	defer quiet.Stop()
	err = source.Receive(ctx, func(d broker.Delivery) {
		total := r.recorder.record(1, func(int) ([]byte, map[string]string) { return d.Body, d.Attributes })
		d.Ack()
		quiet.Reset(Patience)
		if total >= int64(r.Params.Events) {
			stop()
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("read subscription %s: %w", subscription, err)
	}
	return nil
}

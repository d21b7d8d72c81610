package cmd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// rigTimeout is how long anything may take on a busy machine.
const rigTimeout = 90 * time.Second

// publishRig is a database, a broker with topics, and publishers.
type publishRig struct {
	t      *testing.T
	db     *outboxtest.Database
	pubsub *devstack.PubSub
}

func newPublishRig(t *testing.T) *publishRig {
	t.Helper()
	return publishRigOn(t, outboxtest.DB(t))
}

func publishRigOn(t *testing.T, db *outboxtest.Database) *publishRig {
	t.Helper()
	r := &publishRig{t: t, db: db, pubsub: outboxtest.PubSub(t)}
	r.ensure("domain", "analytics", "notifications", "billing")
	return r
}

// ensure creates topics, each named after its logical one.
func (r *publishRig) ensure(topics ...string) {
	r.t.Helper()
	client, err := pubsub.Connect(r.t.Context(), pubsub.Config{Project: r.pubsub.Project, Emulator: r.pubsub.Addr()})
	require.NoError(r.t, err)
	defer client.Close()
	names := map[string]string{}
	for _, t := range topics {
		names[t] = "the-" + t
	}
	outboxtest.Ensure(r.t, client.Ensure, broker.EnsureParams{Plan: pubsub.Plan(names, nil), TopicsOnly: true})
}

func (r *publishRig) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(), "OUTBOXCTL_DATABASE_URL=" + r.db.URL,
		"OUTBOXCTL_PUBSUB_PROJECT=" + r.pubsub.Project, "OUTBOXCTL_PUBSUB_EMULATOR=" + r.pubsub.Addr(),
		"OUTBOXCTL_PUBSUB_TOPICS_DOMAIN=the-domain", "OUTBOXCTL_PUBSUB_TOPICS_ANALYTICS=the-analytics",
		"OUTBOXCTL_PUBSUB_TOPICS_NOTIFICATIONS=the-notifications", "OUTBOXCTL_PUBSUB_TOPICS_BILLING=the-billing",
		"OUTBOXCTL_PUBLISH_HTTP_ADDR=127.0.0.1:0",
	}
}

// publisher is a running outboxctl publish, or another service.
type publisher struct {
	t    *testing.T
	cmd  *exec.Cmd // nil: it runs in this process
	stop func()    // asks it to end
	done chan struct{}
	code int // the exit code, once it is done

	mu   sync.Mutex
	log  []map[string]any
	text strings.Builder
}

// start runs a publisher in this process and ends it when the test does.
func (r *publishRig) start(args ...string) *publisher {
	r.t.Helper()
	return startService(r.t, r.env(), append([]string{"publish"}, args...)...)
}

func startService(t *testing.T, env []string, args ...string) *publisher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &publisher{t: t, stop: cancel, done: make(chan struct{})}
	said, talk := io.Pipe()
	go func() {
		p.code = cmd.Run(ctx, args, cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: talk}, env)
		_ = talk.Close() // always nil
	}()
	p.follow(said, args[0], func() {})
	return p
}

// startProcess is start with a process: for signals, and for a crash.
func (r *publishRig) startProcess(args ...string) *publisher {
	r.t.Helper()
	return startProcess(r.t, r.env(), append([]string{"publish"}, args...)...)
}

func startProcess(t *testing.T, env []string, args ...string) *publisher {
	t.Helper()
	p := &publisher{t: t, cmd: exec.Command("outboxctl", args...), done: make(chan struct{})}
	p.stop = func() { _ = p.cmd.Process.Kill() } // usually gone already
	p.cmd.Env = env
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.follow(stderr, args[0], func() {
		_ = p.cmd.Wait() // its state tells
		p.code = p.cmd.ProcessState.ExitCode()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.code = 128 + int(status.Signal())
		}
	})
	return p
}

// follow reads what a service says until it has ended, which it does when the test does.
func (p *publisher) follow(said io.Reader, name string, wait func()) {
	go func() {
		defer close(p.done)
		p.read(said)
		wait()
	}()
	p.t.Cleanup(func() {
		p.stop()
		<-p.done
		if p.t.Failed() {
			p.t.Logf("%s:\n%s", name, p.output())
		}
	})
}

func (p *publisher) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var entry map[string]any
		_ = json.Unmarshal(lines.Bytes(), &entry) // an error message is no entry
		p.mu.Lock()
		p.log = append(p.log, entry)
		p.text.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
	}
}

// output is everything the publisher has said so far.
func (p *publisher) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// wait returns the exit code.
func (p *publisher) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(rigTimeout):
		require.FailNow(p.t, "the service does not end")
	}
	return p.code
}

// end stops a service, which ends well.
func (p *publisher) end() {
	p.t.Helper()
	p.stop()
	require.Zero(p.t, p.wait(), p.output())
}

func (p *publisher) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// freeze makes a publisher stand still, with no claim on its way to the database: executed only now it would take back
// what the test does next.
func (r *publishRig) freeze(p *publisher) {
	r.t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(r.t, "it stands still", func() bool {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		return err == nil && status.Stopped()
	})
	const claiming = `FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'outboxctl publish'`
	_, err := r.db.Pool.Exec(r.t.Context(), `SELECT pg_terminate_backend(pid) `+claiming)
	require.NoError(r.t, err)
	eventually(r.t, "it claims nothing", func() bool { return r.count(`SELECT count(*) `+claiming) == 0 })
}

// said returns the entries of the log with this message.
func (p *publisher) said(message string) (found []map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.log {
		if e["message"] == message {
			found = append(found, e)
		}
	}
	return found
}

// get asks the publisher's HTTP server.
func (p *publisher) get(path string) (code int, body string) {
	p.t.Helper()
	const serving = "serving /healthz, /readyz and /metrics"
	eventually(p.t, "the process serves", func() bool { return len(p.said(serving)) == 1 })
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.said(serving)[0]["addr"].(string)+path, http.NoBody)
	require.NoError(p.t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, string(text)
}

// emit commits n events of a type; nil data makes valid ones.
func (r *publishRig) emit(n int, eventType string) []string {
	r.t.Helper()
	data := map[string]any{"checkoutGroupId": uuid.New(), "vendorOrderIds": []uuid.UUID{uuid.New()}}
	if eventType == "payment_settled" {
		data = map[string]any{"orderId": uuid.New(), "paymentIntentId": uuid.New(), "amountCents": 5, "settledAt": time.Now()}
	}
	events := make([]emit.Event, n)
	for i := range events {
		events[i] = emit.Event{Type: eventType, AggregateID: uuid.NewString(), Data: data, Headers: map[string]string{"traceparent": "00-1"}}
	}
	emitter := emit.New(registry.New())
	var ids []string
	require.NoError(r.t, pgx.BeginFunc(r.t.Context(), r.db.Pool, func(tx pgx.Tx) error {
		results, err := emitter.EmitAll(r.t.Context(), tx, events)
		for _, e := range results {
			ids = append(ids, e.ID.String())
		}
		return err
	}))
	return ids
}

// count runs a query that counts.
func (r *publishRig) count(query string, args ...any) (n int) {
	r.t.Helper()
	require.NoError(r.t, r.db.Pool.QueryRow(r.t.Context(), query, args...).Scan(&n))
	return n
}

func (r *publishRig) published() int {
	r.t.Helper()
	return r.count(`SELECT count(*) FROM outbox_events WHERE published_at IS NOT NULL`)
}

// stored counts the messages of each event.
func (r *publishRig) stored() map[string]int {
	n := map[string]int{}
	for _, m := range r.pubsub.Stored() {
		n[m.Attributes["event_id"]]++
	}
	return n
}

// eventually waits for something that must happen, however busy the machine is.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rigTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.FailNow(t, "does not come true: "+what)
		}
	}
}

// settled waits until nothing is left to do for n events.
func (r *publishRig) settled(n int) {
	r.t.Helper()
	eventually(r.t, "all events are published", func() bool { return r.published() == n })
}

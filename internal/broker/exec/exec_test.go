package exec_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/dispatch/dispatchtest"
	broker "github.com/outboxctl/outboxctl/internal/broker/exec"
)

// store is a command that keeps events as files, and can be told to fail: a file says with which
// exit code, all of them or one.
const store = `cd "$DIR" || exit 78
[ -f hold ] && { : > arrived; while [ -f hold ]; do sleep 0.01; done; }
[ -f fail ] && { echo "told to" >&2; exit "$(cat fail)"; }
[ -f "reject-$OUTBOX_EVENT_ID" ] && { echo "not this one" >&2; exit 65; }
mkdir "$OUTBOX_EVENT_ID.tmp" && cat > "$OUTBOX_EVENT_ID.tmp/body" && printf %s "$OUTBOX_ATTRIBUTES" > "$OUTBOX_EVENT_ID.tmp/attributes" &&
printf %s "$OUTBOX_ORDERING_KEY" > "$OUTBOX_EVENT_ID.tmp/key" && mv "$OUTBOX_EVENT_ID.tmp" "stored-$OUTBOX_EVENT_ID" && echo "$OUTBOX_EVENT_ID" >> order`

type shelf struct {
	t   *testing.T
	dir string
}

func (s shelf) write(name, text string) {
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
}

func (s shelf) remove(name string) { require.NoError(s.t, os.Remove(filepath.Join(s.dir, name))) }

func (s shelf) read(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	require.NoError(s.t, err)
	return string(text)
}

func (s shelf) stored() (msgs []dispatch.Message) {
	if _, err := os.Stat(filepath.Join(s.dir, "order")); err != nil {
		return nil
	}
	for id := range strings.FieldsSeq(s.read("order")) {
		m := dispatch.Message{EventID: id, Data: []byte(s.read("stored-" + id + "/body")), OrderingKey: s.read("stored-" + id + "/key")}
		require.NoError(s.t, json.Unmarshal([]byte(s.read("stored-"+id+"/attributes")), &m.Attributes))
		msgs = append(msgs, m)
	}
	return msgs
}

func publisher(t *testing.T, command string, timeout time.Duration) dispatch.Publisher {
	t.Helper()
	client, err := broker.New(broker.Config{Command: command, Timeout: timeout, Parallel: 8})
	require.NoError(t, err)
	return client.NewPublisher(map[string]string{"orders": "orders"})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, func(t *testing.T) dispatchtest.Broker {
		s := shelf{t, t.TempDir()}
		return dispatchtest.Broker{
			Publisher:    publisher(t, "DIR='"+s.dir+"'; "+store, time.Minute),
			Topic:        "orders",
			MissingTopic: "missing",
			Batch:        101, // each message is a process
			Stored:       s.stored,
			Fail: func(class dispatch.Class) {
				s.write("fail", map[dispatch.Class]string{
					dispatch.Retryable: "1", dispatch.Refused: "65", dispatch.Misconfigured: "78",
				}[class])
			},
			Recover: func() { s.remove("fail") },
			Reject:  func(id string) { s.write("reject-"+id, "") },
			Hold: func() (<-chan struct{}, func()) {
				s.write("hold", "")
				arrived := make(chan struct{})
				go func() {
					for tick := time.NewTicker(time.Millisecond); t.Context().Err() == nil; {
						if _, err := os.Stat(filepath.Join(s.dir, "arrived")); err == nil {
							close(arrived)
							return
						}
						<-tick.C
					}
				}()
				return arrived, func() { s.remove("hold") }
			},
		}
	})
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]struct {
		class dispatch.Class
		text  string
	}{
		"exit 0":                         {},
		"echo no such order >&2; exit 1": {dispatch.Retryable, "exit status 1: no such order"},
		"echo bad input >&2; exit 65":    {dispatch.Refused, "exit status 65: bad input"},
		"exit 78":                        {dispatch.Misconfigured, "exit status 78"},
		"/nowhere/handler":               {dispatch.Misconfigured, "not found"},
		"kill -9 $$":                     {dispatch.Retryable, "signal: killed"},
	} {
		err := publisher(t, command, time.Minute).Publish(t.Context(), "orders", []dispatch.Message{{EventID: "e"}})[0].Err
		if want.text == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want.text, command)
		require.Equal(t, want.class, dispatch.ClassOf(err), command)
	}
}

// A command that takes too long is ended with all that it has started: nothing is done later.
func TestACommandThatTakesTooLong(t *testing.T) {
	t.Parallel()
	s := shelf{t, t.TempDir()}
	p := publisher(t, "cd '"+s.dir+"'; (trap '' TERM; sleep 30; : > later) & wait", 200*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := p.Publish(ctx, "orders", []dispatch.Message{{EventID: "e"}})[0].Err
	require.Equal(t, dispatch.Retryable, dispatch.ClassOf(err))
	require.Equal(t, "timeout", dispatch.CodeOf(err), "%v", err)
	require.NoFileExists(t, filepath.Join(s.dir, "later"))
}

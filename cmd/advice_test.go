package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// advices is a rig that brings about what why and doctor advise on, and runs what they advise.
type advices struct {
	*lostTopic
	redis, folder string
	ran           []string
}

// Every command that why and doctor advise is run in the state that they advise it for. It succeeds, and no event is lost.
// A command in the code that this does not run fails the test: bring about its state here.
func TestEveryAdviceRunsAndLosesNothing(t *testing.T) {
	t.Parallel()
	a := &advices{lostTopic: loseTopic(t), redis: outboxtest.Redis(t).URL, folder: t.TempDir()}
	a.waiting()
	a.settledStates()
	a.lost()
	a.doctor()

	a.do("publish --once")
	var never []string
	// What has an ordering key may wait behind a dead letter that was only looked at.
	require.NoError(t, a.db.Pool.QueryRow(t.Context(), `SELECT ARRAY(SELECT row_to_json(e)::text FROM outbox_events AS e
		 WHERE dead_at IS NULL AND (published_at IS NOT NULL OR ordering_key IS NULL) AND id::text <> ALL ($1))`,
		slices.Collect(maps.Keys(a.stored()))).Scan(&never))
	require.Empty(t, never, "the broker never got them")

	for _, advice := range adviceOf(t) {
		// Remedies with prose behind the command are checked by TestEveryAdvisedCommandExists.
		command, prose, _ := strings.Cut(advice, " shows what exists")
		if prose != "" {
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(command), "%s", ".+") + "$")
		require.True(t, slices.ContainsFunc(a.ran, pattern.MatchString), "no test runs the advice %q", advice)
	}
}

// sh runs a command line as an operator does who says yes.
func (a *advices) sh(line string) {
	a.t.Helper()
	command, comment, _ := strings.Cut(line, "   #")
	words := strings.Fields(command)
	switch {
	case words[1] == "publish":
		command += " --once" // a service
	case strings.Contains(command, "--note"), words[1] == "resume":
		command = strings.Replace(command, "…", "advised", 1) + " --yes"
	}
	if slices.Contains(words, "edit") { // what one would type in the editor, which needs a terminal
		command += fmt.Sprintf(` --data '{"checkoutGroupId": %q, "vendorOrderIds": [%q]}'`, uuid.New(), uuid.New())
	}
	code, said := a.shell(command)
	a.ran = append(a.ran, line)
	if words[1] == "doctor" && code == 1 {
		return // it has findings, which is the point
	}
	require.Zero(a.t, code, "%s\n%s", command, said)
	if _, then, ok := strings.Cut(comment, "then: "); ok {
		a.sh(then)
	}
}

// shell runs a line: as a shell takes it apart, in this process, or with the files that it names, in a shell.
func (a *advices) shell(line string) (code int, said string) {
	a.t.Helper()
	env := append(a.env(), "OUTBOXCTL_REDIS_URL="+a.redis)
	files := strings.ContainsAny(line, "<>|")
	if !files {
		line = `outboxctl() { printf '%s\000' "$@"; }; ` + line
	}
	sh := exec.CommandContext(a.t.Context(), "sh", "-c", line)
	sh.Dir, sh.Env = a.folder, env
	out, err := sh.CombinedOutput()
	if files || err != nil {
		return sh.ProcessState.ExitCode(), string(out)
	}
	code, stdout, talk := cmd.RunText(a.t.Context(), env, "", strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")...)
	return code, stdout + talk
}

// why checks the state of an event and returns what is advised.
func (a *advices) why(id, state string) []string {
	a.t.Helper()
	_, out, talk := a.run("why", id, "-o", "json")
	var r struct {
		State    string
		Commands []string
	}
	require.NoError(a.t, json.Unmarshal([]byte(out), &r), talk)
	require.Equal(a.t, state, r.State, out)
	return r.Commands
}

// follow runs each command that is advised for an event in a state, on one that was brought there for it.
func (a *advices) follow(state string, bring func() (id string)) {
	a.t.Helper()
	for i, n := 0, 1; i < n; i++ {
		commands := a.why(bring(), state)
		n = len(commands)
		require.NotZero(a.t, n, state)
		a.sh(commands[i])
	}
}

func (a *advices) exec(sql string, args ...any) {
	a.t.Helper()
	_, err := a.db.Pool.Exec(a.t.Context(), sql, args...)
	require.NoError(a.t, err)
}

// one is a new event, behind no other.
func (a *advices) one() string {
	a.t.Helper()
	a.do("publish --once")
	return a.emit(1, "order_created")[0]
}

func (a *advices) published() string {
	a.t.Helper()
	id := a.one()
	a.do("publish --once")
	return id
}

// refused has what is published meanwhile refused by the broker.
func (a *advices) refused(publish string) {
	a.t.Helper()
	a.pubsub.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
		return devstack.PublishFault{Err: status.Error(codes.Internal, "odd")}
	})
	a.run(strings.Fields(publish)...) // it exits with what has died
	a.pubsub.OnPublish(nil)
}

// waiting: for a publisher, for its lease, for an operator, for another catalogue, for its next attempt and for its key.
func (a *advices) waiting() {
	a.follow("no_publisher", a.one)
	a.follow("leased", func() string {
		id := a.one()
		a.exec(`INSERT INTO outbox_leases (owner, until, seqs)
			SELECT gen_random_uuid(), now() + interval '10 seconds', int8multirange(int8range(seq, seq, '[]')) FROM outbox_events WHERE id = $1`, id)
		return id
	})
	a.exec(`UPDATE outbox_leases SET until = now()`)
	a.follow("paused", func() string {
		id := a.one()
		a.do("pause --topic domain --yes")
		return id
	})
	a.follow("paused", func() string { // and scheduled
		id := a.one()
		a.exec(`UPDATE outbox_events SET deliver_at = now() + interval '1 hour', next_attempt_at = now() + interval '1 hour' WHERE id = $1`, id)
		a.do("pause --topic domain --yes")
		return id
	})
	a.exec(`UPDATE outbox_events SET next_attempt_at = now(), deliver_at = NULL`)
	a.follow("paused", func() string { // with its ordering key
		id := a.behind()
		a.do("pause --topic domain --yes")
		return id
	})
	for _, other := range []string{unknowing, elsewhere} {
		a.follow("stranded", func() string {
			id := a.one()
			a.alive(other)
			return id
		})
		a.exec(`DELETE FROM outbox_publishers`)
	}
	a.follow("backing_off", func() string {
		id := a.one()
		a.refused("publish --once")
		a.exec(`UPDATE outbox_events SET next_attempt_at = now() + interval '1 hour' WHERE id = $1`, id)
		return id
	})
	a.exec(`UPDATE outbox_events SET next_attempt_at = now()`)
	a.follow("scheduled", func() string {
		id := a.one()
		a.exec(`UPDATE outbox_events SET deliver_at = now() + interval '1 hour', next_attempt_at = now() + interval '1 hour' WHERE id = $1`, id)
		return id
	})
	a.exec(`UPDATE outbox_events SET next_attempt_at = now(), deliver_at = NULL`)
	a.follow("no_publisher", func() string { return a.behind() })
	a.follow("parked", func() string {
		id := a.behind()
		a.refused("publish --once --max-attempts 1")
		return id
	})
	a.follow("parked", func() string {
		id := a.behind()
		a.refused("publish --once --max-attempts 1")
		a.do("erase --yes " + a.text(`SELECT event_id::text FROM outbox_dlq WHERE state = 'open' ORDER BY failed_at DESC LIMIT 1`))
		return id
	})
}

// What living publishers tell of themselves: one does not know the type, one was told to take others.
const (
	unknowing = `{"topics": [], "catalogue": {"source": "file", "unknown": {"*": ["order_created"]}}}`
	elsewhere = `{"topics": [], "takes": {"namespace": "elsewhere"}}`
)

func (a *advices) alive(state string) {
	a.t.Helper()
	a.exec(`INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state)
	        VALUES (gen_random_uuid(), 'other', 1, 'x', now(), now() + interval '1 hour', $1::text::jsonb)`, state)
}

// behind is the second event of an ordering key.
func (a *advices) behind() string {
	a.t.Helper()
	key := "default/" + uuid.NewString()
	like := a.published()
	a.copy(like, key, `{}`)
	return a.copy(like, key, `{}`)
}

// copy writes an event like another, with an ordering key or other data, and returns its id.
func (a *advices) copy(id, key, data string) string {
	a.t.Helper()
	copied := uuid.Must(uuid.NewV7()).String()
	a.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, ordering_key, payload_json)
	        SELECT $2::text::uuid, event_type, aggregate_type, aggregate_id, nullif($3, ''),
	               payload_json || jsonb_build_object('eventId', $2::text, 'data', payload_json -> 'data' || $4::jsonb)
	          FROM outbox_events WHERE id = $1`, id, copied, key, data)
	return copied
}

// settledStates: published, dead, discarded, corrected, cleaned up, never there.
func (a *advices) settledStates() {
	a.follow("published", a.published)
	a.follow("published", func() string {
		id := a.published()
		a.exec(`SELECT outbox_consumer_failed('mailer', $1, 'order_created', 'default', '', '', 's', 'e', true, 0)`, id)
		return id
	})
	a.follow("not_found", uuid.NewString)
	exhausted := func() string {
		id := a.one()
		a.refused("publish --once --max-attempts 1")
		return id
	}
	a.follow("dead", exhausted)
	malformed := func() string {
		id := a.copy(a.published(), "", `{"vendorOrderIds": "one"}`)
		a.run("publish", "--once")
		return id
	}
	a.follow("dead", malformed)
	a.follow("dead", func() string { // no correction of the payload mends it
		other := uuid.Must(uuid.NewV7()).String()
		id := a.published()
		a.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
			SELECT $2::text::uuid, event_type, 'store', aggregate_id, payload_json || jsonb_build_object('eventId', $2::text) FROM outbox_events WHERE id = $1`, id, other)
		a.run("publish", "--once")
		return other
	})
	for _, reason := range outbox.DeadReasons() {
		if slices.Contains([]string{"max_attempts", "invalid_payload", "aggregate_mismatch", "erased"}, reason) {
			continue
		}
		a.follow("dead", func() string {
			id := exhausted()
			a.exec(`ALTER TABLE outbox_dlq DISABLE TRIGGER USER`) // a dead letter keeps its reason
			a.exec(`UPDATE outbox_dlq SET error_reason = $2 WHERE event_id = $1`, id, reason)
			a.exec(`ALTER TABLE outbox_dlq ENABLE TRIGGER USER`)
			return id
		})
	}
	a.follow("discarded", func() string {
		id := exhausted()
		a.sh("outboxctl dlq discard " + a.letter(id) + " --note 'x'")
		return id
	})
	a.follow("discarded", func() string {
		id := malformed()
		a.sh("outboxctl dlq edit " + a.letter(id) + " --note 'x'")
		return id
	})
	a.follow("cleaned_up", func() string {
		id := exhausted()
		a.exec(`DELETE FROM outbox_events WHERE id = $1`, id)
		return id
	})
	a.follow("cleaned_up", func() string {
		id := a.published()
		a.do("event republish " + id + " --yes")
		a.do("publish --once")
		a.exec(`DELETE FROM outbox_events WHERE id = $1`, id)
		return id
	})
}

func (a *advices) letter(event string) string {
	a.t.Helper()
	return a.text(`SELECT id::text FROM outbox_dlq WHERE event_id = $1`, event)
}

func (a *advices) text(sql string, args ...any) (text string) {
	a.t.Helper()
	require.NoError(a.t, a.db.Pool.QueryRow(a.t.Context(), sql, args...).Scan(&text))
	return text
}

// lost: the topic is deleted under a running publisher, with its subscriptions.
func (a *advices) lost() {
	p := a.start()
	id := ""
	a.follow("topic_paused", func() string {
		if id != "" { // the advice before has only looked
			return id
		}
		a.deleteTopic()
		a.deleteSubscriptions(a.subs...)
		id = a.emit(1, "order_created")[0]
		eventually(a.t, "the topic is refused", func() bool {
			return a.count(`SELECT count(*) FROM outbox_publishers WHERE state::text LIKE '%misconfigured%'`) == 1
		})
		return id
	})
	eventually(a.t, "it is published", func() bool {
		return a.count(`SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND id = '`+id+`'`) == 0
	})
	p.end()
}

// doctor runs the remedies that are commands, in states that have them.
func (a *advices) doctor() {
	a.one()
	a.remedies("outboxctl publish")
	for state, remedy := range map[string]string{
		unknowing: "outboxctl publish --catalogue database", elsewhere: "outboxctl publish --namespace default",
	} {
		a.alive(state)
		a.one()
		a.remedies(remedy)
		a.exec(`DELETE FROM outbox_publishers`)
	}
	a.deleteTopic()
	a.deleteSubscriptions(a.subs[0]) // the other was deleted before
	a.remedies("outboxctl topic ensure")
	db := a.db
	a.db = outboxtest.EmptyDB(a.t)
	a.remedies("outboxctl migrate")
	a.db = db
}

// remedies runs what doctor advises, which must include one.
func (a *advices) remedies(want string) {
	a.t.Helper()
	_, out, talk := a.run("doctor", "-o", "json")
	var findings []struct{ Remedy string }
	require.NoError(a.t, json.Unmarshal([]byte(out), &findings), talk)
	found := map[string]bool{}
	for _, f := range findings {
		found[f.Remedy] = true
	}
	require.True(a.t, found[want], out)
	a.sh(want)
}

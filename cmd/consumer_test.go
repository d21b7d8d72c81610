package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

const twoTopics = `outbox: 1
name: shop
topics: {orders: shop-orders, files: shop-files}
defaults: {schema: any}
types:
  order_created: {topic: orders, aggregate: checkout_group}
  media_uploaded: {topic: files, aggregate: media}
`

// A consumer reads the subscriptions of the catalogue; what it fails on is seen, and tried again without the others.
func TestAConsumersFailureIsShownAndRetried(t *testing.T) {
	t.Parallel()
	w := newEventWorld(t)
	file, seen := filepath.Join(t.TempDir(), "shop.yaml"), filepath.Join(t.TempDir(), "seen")
	require.NoError(t, os.WriteFile(file, []byte(twoTopics), 0o600))
	w.env = append(w.env, "OUTBOXCTL_CATALOGUE="+file)
	require.Contains(t, w.fails(cli.ExitUsage, "topic", "ensure", "--subscription", "audit-sub"), "--topic says whose it is: files, orders")
	require.Contains(t, w.fails(cli.ExitNotFound, "topic", "ensure", "--subscription", "audit-sub", "--topic", "nowhere"), "it has files, orders")
	w.ok("topic", "ensure")
	w.ok("topic", "ensure", "--subscription", "audit-sub", "--topic", "orders")
	require.Contains(t, w.ok("topic", "list", "-o", "json"), "audit-sub")

	order := strings.TrimSpace(w.ok("emit", "--type", "order_created", "--aggregate-id", uuid.NewString(), "--data", `{}`))
	media := strings.TrimSpace(w.ok("emit", "--type", "media_uploaded", "--aggregate-id", uuid.NewString(), "--data", `{}`))
	w.ok("publish", "--once")
	consume := func(name, command string, more ...string) {
		w.ok(append([]string{"consume", "--consumer", name, "--exec", command, "--http-addr", ""}, more...)...)
	}
	failures := func() (list []consumers.Failure) {
		require.NoError(t, json.Unmarshal([]byte(w.ok("consumer", "failures", "mailer", "-o", "json")), &list))
		return list
	}
	consume("audit", "echo $OUTBOX_EVENT_ID >> "+seen, "--subscription", "audit-sub", "--count", "1")
	for len(failures()) == 0 { // a busy machine's first message may come after the worker went
		consume("mailer", "exit 65", "--type", "order_created", "--idle-exit", "300ms")
	}
	consume("mailer", "echo $OUTBOX_EVENT_ID >> "+seen, "--topic", "files", "--count", "1")

	list := failures()
	require.Len(t, list, 1)
	require.Equal(t, []any{"mailer", order, "order_created", consumers.GaveUp, "shop-orders-sub"},
		[]any{list[0].Consumer, list[0].EventID, list[0].EventType, list[0].State, list[0].Subscription})
	require.Contains(t, list[0].LastError, "exit status 65")
	require.Contains(t, w.ok("consumer", "list"), "mailer")
	require.Contains(t, w.fails(1, "check"), "consumer mailer gave up 1 event")
	require.Contains(t, w.ok("why", order), "Consumer mailer fails to handle it")
	require.Contains(t, w.ok("event", "show", order), "mailer  gave up after 1 attempt")
	require.Contains(t, w.ok("stats"), "consumer    mailer fails on 0 and gave up 1: outboxctl consumer failures mailer")
	require.NotContains(t, w.ok("why", media), "fails to handle it")

	w.fails(cli.ExitUsage, "consumer", "retry", "mailer", order, "--type", "order_created")
	w.fails(cli.ExitNotFound, "consumer", "retry", "mailer", media, "--yes")
	w.fails(cli.ExitRefused, "consumer", "retry", "mailer")
	require.Equal(t, consumers.GaveUp, failures()[0].State, "nothing was changed")
	w.ok("consumer", "retry", "mailer", order[:13], "--yes")
	require.Equal(t, consumers.Failing, failures()[0].State)
	w.ok("publish", "--once")
	for len(failures()) > 0 {
		consume("mailer", "true", "--type", "order_created", "--idle-exit", "1s")
	}
	consume("audit", "echo again >> "+seen, "--subscription", "audit-sub", "--count", "1")
	text, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.Equal(t, order+"\n"+media+"\n", string(text), "the other consumer remembers")
	w.ok("check")
}

// Two databases share Redis and a topic with its subscription; each knows what failed at its own consumer, and a retry is of one
// tenant where that is said.
func TestFailuresAreOfOneContextAndOneTenant(t *testing.T) {
	t.Parallel()
	fake, rdb := outboxtest.PubSub(t), outboxtest.Redis(t)
	file := filepath.Join(t.TempDir(), "outboxctl.yaml")
	contexts := "contexts:\n"
	context := func(name string) *eventWorld {
		w := &eventWorld{t: t, db: outboxtest.DB(t), rdb: rdb, env: []string{"OUTBOXCTL_CONFIG=" + file, "OUTBOXCTL_CONTEXT=" + name, "OUTBOXCTL_ACTOR=tester"}}
		contexts += fmt.Sprintf("  %s: {database: {url: %q}, redis: {url: %q}, pubsub: {project: %s, emulator: %q}}\n", name, w.db.URL, rdb.URL, fake.Project, fake.Addr())
		return w
	}
	one, two := context("one"), context("two")
	require.NoError(t, os.WriteFile(file, []byte(contexts), 0o600))
	const ann, bob = "aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-1111-4111-8111-111111111111"
	emit := func(w *eventWorld, tenant string) string {
		return strings.TrimSpace(w.ok("emit", "--type", "media_uploaded", "--aggregate-id", uuid.NewString(), "--data", `{}`, "--tenant", tenant))
	}
	consume := func(command string, more ...string) {
		one.ok(append([]string{"consume", "--consumer", "mailer", "--exec", command, "--topic", "domain", "--http-addr", ""}, more...)...)
	}
	failures := func(w *eventWorld, more ...string) (states map[string]string) {
		var list []consumers.Failure
		require.NoError(t, json.Unmarshal([]byte(w.ok(append([]string{"consumer", "failures", "mailer", "-o", "json"}, more...)...)), &list))
		states = map[string]string{}
		for _, f := range list {
			states[f.EventID] = f.State
		}
		return states
	}
	waiting := `SELECT count(*) FROM outbox_events WHERE published_at IS NULL`

	one.ok("topic", "ensure")
	ofAnn, ofBob := emit(one, ann), emit(one, bob)
	one.ok("publish", "--once")
	for len(failures(one)) < 2 { // a busy machine's first message may come after the worker went
		consume("exit 65", "--idle-exit", "300ms")
	}
	all := map[string]string{ofAnn: consumers.GaveUp, ofBob: consumers.GaveUp}
	require.Equal(t, all, failures(one))
	require.Empty(t, failures(two))
	require.Contains(t, one.ok("consumer", "list", "--jq", `.[] | "\(.consumer) \(.gaveUp)"`), "mailer 2")
	require.Contains(t, two.ok("consumer", "list", "--jq", `.[] | "\(.consumer) \(.gaveUp)"`), "mailer 0", "Redis knows the name")
	require.Contains(t, one.fails(1, "check"), "consumer mailer gave up 2 events")
	two.ok("check")

	// The other database has nothing to try again, not even by its id.
	two.fails(cli.ExitNotFound, "consumer", "retry", "mailer", ofAnn, "--yes")
	two.ok("consumer", "retry", "mailer", "--yes")
	two.fails(cli.ExitNotFound, "why", ofAnn)
	require.Equal(t, all, failures(one))
	require.Zero(t, one.Count(waiting))

	// A tenant is named as in every other command: in any spelling of its id, and an id it has to be.
	require.Equal(t, map[string]string{ofAnn: consumers.GaveUp}, failures(one, "--tenant", strings.ToUpper(ann)))
	require.Empty(t, failures(one, "--tenant", uuid.NewString()))
	require.Contains(t, one.fails(cli.ExitUsage, "consumer", "failures", "--tenant", "ann"), `"ann" is not a UUID`)
	one.fails(cli.ExitUsage, "consumer", "retry", "mailer", "--tenant", "ann", "--yes")
	one.ok("consumer", "retry", "mailer", "--tenant", ann, "--yes")
	require.Equal(t, map[string]string{ofAnn: consumers.Failing, ofBob: consumers.GaveUp}, failures(one))
	require.Equal(t, 1, one.Count(waiting+` AND id = $1`, ofAnn))
	require.Equal(t, 1, one.Count(waiting))

	// One consumer receives what both publish. What is not in its database is told apart, and keeps nothing from being tried again.
	one.ok("publish", "--once")
	for failures(one)[ofAnn] != "" {
		consume("true", "--type", "media_uploaded", "--idle-exit", "1s")
	}
	foreign := emit(two, bob)
	two.ok("publish", "--once")
	again := emit(one, bob)
	one.ok("publish", "--once")
	for before := failures(one); before[foreign] != consumers.GaveUp || before[again] != consumers.GaveUp; before = failures(one) {
		consume("exit 65", "--idle-exit", "300ms")
	}
	require.Contains(t, one.fails(cli.ExitPartial, "consumer", "retry", "mailer", "--yes"), "1 not found")
	require.Equal(t, map[string]string{foreign: consumers.GaveUp}, failures(one, "--state", consumers.GaveUp))
	require.Empty(t, failures(two))
}

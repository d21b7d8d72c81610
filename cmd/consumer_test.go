package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumers"
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
	consume("audit", "echo $OUTBOX_EVENT_ID >> "+seen, "--subscription", "audit-sub", "--count", "1")
	consume("mailer", "exit 65", "--type", "order_created", "--idle-exit", "300ms")
	consume("mailer", "echo $OUTBOX_EVENT_ID >> "+seen, "--topic", "files", "--count", "1")

	failures := func() (list []consumers.Failure) {
		require.NoError(t, json.Unmarshal([]byte(w.ok("consumer", "failures", "mailer", "-o", "json")), &list))
		return list
	}
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
	w.ok("consumer", "retry", "mailer", "--yes")
	require.Equal(t, consumers.Failing, failures()[0].State)
	w.ok("publish", "--once")
	consume("mailer", "true", "--type", "order_created", "--idle-exit", "3s")
	require.Empty(t, failures())
	consume("audit", "echo again >> "+seen, "--subscription", "audit-sub", "--count", "1")
	text, err := os.ReadFile(seen)
	require.NoError(t, err)
	require.Equal(t, order+"\n"+media+"\n", string(text), "the other consumer remembers")
	w.ok("check")
}

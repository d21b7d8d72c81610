package cmd_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestHostileTextNeverReachesTheTerminal(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	hostile := "=cmd()|\x1b]0;owned\x07\x1b[2J\u009b31m\u202Eevil\u2066\n\r\tline two\u2028\u200bend"
	payload := `{"version": 1, "data": {"note": "\u001b[31m` + "\u009b\u202E" + `"}}`
	r.die(1, hostile, payload)
	r.exec("UPDATE outbox_events SET last_error = $1, broker_message_id = $1", hostile)
	id := r.id()
	code, _, _ := r.run(false, "", "dlq", "discard", id, "--yes", "--actor", "ann\x1b[31m", "--note", hostile)
	require.Equal(t, 0, code)
	var commands [][]string
	for _, format := range []string{"table", "wide", "json", "jsonl", "id"} {
		commands = append(commands, []string{"dlq", "list", "--state", "all", "-o", format}, []string{"audit", "-o", format},
			[]string{"dlq", "list", "--state", "all", "--group-by", "fingerprint", "-o", format}, []string{"event", "list", "-o", format})
	}
	for _, format := range []string{"table", "json"} {
		commands = append(commands, []string{"dlq", "show", id, "--payload", "pretty", "-o", format}, []string{"dlq", "show", id, "--payload", "raw", "-o", format},
			[]string{"event", "show", id, "--payload", "raw", "-o", format}, []string{"why", id, "-o", format})
	}
	commands = append(commands, []string{"dlq", "export", "--state", "all"}, []string{"dlq", "restore", id, "--dry-run"},
		[]string{"dlq", "restore", "--since", "1d", "--dry-run"}, []string{"__complete", "dlq", "show", ""})
	for _, args := range commands {
		for _, tty := range []bool{false, true} {
			code, stdout, stderr := r.run(tty, "", args...)
			require.Equal(t, 0, code, "%v: %s", args, stderr)
			requirePlain(t, args, stdout+stderr)
		}
	}
}

// requirePlain fails when an output has a character that a terminal acts on.
func requirePlain(t *testing.T, args []string, output string) {
	t.Helper()
	clean := stripPaint(output)
	for _, bad := range clean {
		plain := bad == '\n' || bad == '\t' || !unicode.IsControl(bad) && !unicode.Is(unicode.Bidi_Control, bad) && bad != 0x2028 && bad != 0x200b
		require.True(t, plain, "%v prints %U:\n%q", args, bad, clean)
	}
}

// A column of the type text takes any event type, a publisher any name, and a catalogue file any description.
func TestHostileNamesNeverReachTheTerminal(t *testing.T) {
	t.Parallel()
	db := outboxtest.ShapedDB(t, outboxtest.Shape{Types: migrate.TypesText})
	r := &dlqRig{t: t, db: db, env: []string{"HOME=" + t.TempDir(), "OUTBOXCTL_DATABASE_URL=" + db.URL, "OUTBOXCTL_ACTOR=ann"}}
	const hostile = "evil\x1b[2J\u202e\nforged"
	r.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at, dead_at)
SELECT outbox_uuid_v7(), $1, 'order', 'a', '{"version": 1, "data": {}}', now() - interval '3 days', published, dead
  FROM (VALUES (now() - interval '2 days', NULL), (NULL, now() - interval '2 days'), (NULL, NULL)) AS v(published, dead)`, hostile)
	r.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, state, state_changed_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'max_attempts', 'no', 10, dead_at, 'domain', state, CASE WHEN state <> 'open' THEN dead_at END
  FROM outbox_events, (VALUES ('open'), ('discarded')) AS s(state) WHERE dead_at IS NOT NULL`)
	r.exec(`INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state)
VALUES (gen_random_uuid(), $1, 7, 'v1', now(), now() + interval '1 hour', jsonb_build_object('catalogue', jsonb_build_object('source', $1::text)))`, hostile)
	text := func(sql string) (id string) {
		require.NoError(t, db.Pool.QueryRow(t.Context(), sql).Scan(&id))
		return id
	}
	dead := text("SELECT id::text FROM outbox_dlq WHERE state = 'open'")
	published := text("SELECT id::text FROM outbox_events WHERE published_at IS NOT NULL")

	catalogue := filepath.Join(t.TempDir(), "shop.yaml")
	require.NoError(t, os.WriteFile(catalogue, []byte(`outbox: 1
name: shop
topics: {orders: shop-orders}
types:
  order.made:
    topic: orders
    aggregate: order
    description: "evil\e[2J\u202E"
    schema: {type: object, properties: {id: {type: string, "evil\e[2J": 1}, "name\e[2J": {type: string}}}
`), 0o600))
	// An event of the type is waiting whose payload the catalogue refuses, and says why with words of the payload.
	r.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
VALUES (outbox_uuid_v7(), 'order.made', $1, 'a', '{"version": 1, "data": {"id": 7}}')`, hostile)
	for _, tc := range []struct {
		says string // that the command came to print the text
		args []string
	}{
		{"evil", []string{"cleanup", "--older-than", "1d", "--dlq-older-than", "1d", "--dry-run"}},
		{"evil", []string{"dlq", "replay", dead, "--dry-run"}},
		{"evil", []string{"event", "republish", published, "--dry-run"}},
		{"warning: ", []string{"registry", "check", catalogue}},
		{"evil", []string{"registry", "show", "order.made", "--catalogue", catalogue}},
		{"would die", []string{"registry", "apply", catalogue, "--dry-run"}},
		{"note: publisher evil", []string{"registry", "apply", catalogue, "--dry-run"}},
	} {
		t.Run(tc.args[0]+" "+tc.args[1]+" "+tc.says, func(t *testing.T) {
			for _, tty := range []bool{false, true} {
				code, stdout, stderr := r.run(tty, "", tc.args...)
				require.Equal(t, 0, code, "%v: %s", tc.args, stderr)
				require.Contains(t, stdout+stderr, tc.says, "%v", tc.args)
				require.NotContains(t, stdout+stderr, "\nforged", "%v", tc.args)
				requirePlain(t, tc.args, stdout+stderr)
			}
		})
	}
}

func stripPaint(text string) string {
	for _, style := range []string{"1", "2", "1;31", "31", "32", "33", "36", "0"} {
		text = strings.ReplaceAll(text, "\x1b["+style+"m", "")
	}
	// What a progress bar writes to draw and to clear itself.
	return strings.NewReplacer("\r", "", "\x1b[K", "").Replace(text)
}

func TestCompletionAsksTheDatabase(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(1, "no route", `{"data": {}}`)
	id := r.id()
	config := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(config, []byte("contexts:\n  far:\n    database: {url: \"postgres://x@127.0.0.1:1/x\"}\n"), 0o600))
	r.env = append(r.env, "OUTBOXCTL_CONFIG="+config)
	code, _, said := r.run(false, "", "dlq", "discard", id, "--plan", "--yes")
	require.Equal(t, 0, code, said)
	code, _, said = r.run(false, "", "pause", "--topic", "billing", "--actor", "ann", "--note", "why", "--yes")
	require.Equal(t, 0, code, said)
	_, plan, _ := r.run(false, "", "plan", "list", "-o", "id")
	plan = strings.TrimSpace(plan)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"dlq", "show", ""}, id + "\torder_canceled max_attempts: no route\n"},
		{[]string{"dlq", "replay", id[:4]}, id + "\t"},
		{[]string{"dlq", "restore", ""}, ":4\n"},
		{[]string{"dlq", "list", "--reason", "m"}, "max_attempts\n"},
		{[]string{"dlq", "list", "--state", ""}, "open\nreplayed\ndiscarded\nall\n"},
		{[]string{"dlq", "list", "--group-by", ""}, "fingerprint\nreason\ntype\ntopic\n"},
		{[]string{"event", "list", "--status", ""}, "pending\nprocessing\npublished\ndead\nall\n"},
		{[]string{"why", ""}, "\tdead order_canceled\n"},
		{[]string{"consumer", "show", ""}, "\tdead order_canceled\n"},
		{[]string{"consumer", "forget", ""}, "\tdead order_canceled\n"},
		{[]string{"plan", "show", ""}, plan + "\tdlq.discard, ready\n"},
		{[]string{"plan", "run", plan[:9]}, plan + "\tdlq.discard, ready\n"},
		{[]string{"audit", "show", ""}, "\tpause by ann\n"},
		{[]string{"audit", "--run", ""}, "\tpause by ann\n"},
		{[]string{"stats", "--context", ""}, "far\n:4\n"},
		{[]string{"config", "use-context", "f"}, "far\n:4\n"},
		{[]string{"registry", "check", ""}, ":0\n"},
		{[]string{"stats", "--config", ""}, ":0\n"},
		{[]string{"emit", "--data", "@../docs/json-"}, "@../docs/json-output.md\n:4\n"},
		{[]string{"dlq", "edit", id, "--data", "@../do"}, "@../docs/\n:6\n"},
		{[]string{"dev", "--state-dir", ""}, ":16\n"},
	} {
		var code int
		var stdout string
		for tries := 0; tries < 200 && !strings.Contains(stdout, tc.want); tries++ { // on a busy machine the database may not answer within a Tab's time
			code, stdout, _ = r.run(false, "", append([]string{"__complete"}, tc.args...)...)
		}
		require.Equal(t, 0, code)
		require.Contains(t, stdout, tc.want, "%v", tc.args)
	}
	// Without a database there is still what the program itself knows, and no noise.
	r.env[2] = "OUTBOXCTL_DATABASE_URL=postgres://nobody@127.0.0.1:1/x"
	_, stdout, stderr := r.run(false, "", "__complete", "dlq", "list", "--reason", "max")
	require.Contains(t, stdout, "max_attempts\n")
	_, stdout, _ = r.run(false, "", "__complete", "dlq", "show", "")
	require.Equal(t, ":4\n", stdout)
	require.NotContains(t, stderr, "error")
}

func TestMisspeltFiltersNameWhatWasMeant(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(1, "no", `{"data": {}}`)
	for line, want := range map[string]string{
		"dlq list --topic domian":                       `note: no topic "domian" is known: did you mean domain?`,
		"dlq list --group-by type --namespace defualt":  `note: no namespace "defualt" is known: did you mean default?`,
		"event list --namespace defalt":                 `note: no namespace "defalt" is known: did you mean default?`,
		"event list --type order_cancelled":             `did you mean order_canceled?`,
		"event tail --type order_cancelled":             `did you mean order_canceled?`,
		"dlq discard --topic domian --dry-run":          `note: no topic "domian" is known: did you mean domain?`,
		"event republish --type order_creatd --dry-run": `did you mean order_created?`,
		"dlq list --state opne":                         "hint: did you mean open?",
		"dlq list --reason max_atempts":                 "hint: did you mean max_attempts?",
		"dlq list --group-by tpye":                      "hint: did you mean type?",
		"dlq list -o jsn":                               "hint: did you mean json?",
		"event list --status ded":                       "hint: did you mean dead?",
		"stats --by tpic":                               "hint: did you mean topic?",
		"audit --action dlq.replya":                     "hint: did you mean dlq.replay?",
		"registry show order_cancelled":                 "hint: did you mean order_canceled?",
		"plan show abc":                                 "hint: outboxctl plan list lists the plans",
	} {
		_, _, stderr := r.run(false, "", strings.Fields(line)...)
		require.Contains(t, stderr, want, line)
	}
	_, _, stderr := r.run(false, "", "dlq", "list", "--topic", "domain", "--namespace", "quite_another")
	require.Empty(t, stderr)
}

func TestManyChangedRowsAreASentence(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(60, "no", `{"data": {}}`)
	code, stdout, stderr := r.run(true, "", "dlq", "discard", "--since", "1d", "--yes")
	require.Equal(t, 0, code, stderr)
	require.Empty(t, stdout)
	require.Regexp(t, `60 discarded in \S+ on \S+\n`, stderr)
	_, ids, _ := r.run(false, "", "dlq", "list", "--state", "discarded", "--limit", "0", "-o", "id")
	code, stdout, stderr = r.run(true, ids, "dlq", "discard", "-", "--yes")
	require.NotEqual(t, 0, code)
	require.Equal(t, 51, strings.Count(stdout, "\n"), "the head and fifty rows")
	require.Regexp(t, `and 10 more\n0 discarded in \S+ on \S+; 60 already discarded\n`, stderr)
}

func TestDeadLettersFitANarrowTerminal(t *testing.T) {
	t.Parallel()
	for width, left := range map[int]string{
		60:  "hidden columns: failed, reason, attempts, state (-o wide shows all)\n",
		80:  "hidden columns: reason, attempts, state (-o wide shows all)\n",
		120: "",
	} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			t.Parallel()
			r := newDLQRig(t)
			r.die(1, strings.Repeat("a long error ", 30), `{"data": {}}`)
			r.exec(`ALTER TABLE outbox_dlq DISABLE TRIGGER USER`)
			r.exec(`UPDATE outbox_dlq SET error_reason = 'aggregate_mismatch'`)
			var out, said bytes.Buffer
			streams := cli.Streams{In: strings.NewReader(""), Out: &out, Err: &said, OutTTY: true, Width: width}
			require.Equal(t, 0, cmd.Run(context.Background(), []string{"dlq", "list"}, streams, r.env), said.String())
			for line := range strings.Lines(out.String()) {
				require.LessOrEqual(t, ansi.StringWidth(strings.TrimRight(line, "\n")), width, line)
			}
			require.Contains(t, out.String(), "a long error a long", "the error is what one looks for")
			require.Equal(t, left, said.String())
		})
	}
}

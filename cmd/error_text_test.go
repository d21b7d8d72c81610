package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// foreign are the words of servers, drivers and the system that an operator must not have to know. What is wrong with flags
// and arguments is said by cobra.
var foreign = regexp.MustCompile(`SQLSTATE|invalid input (value|syntax)|pgx|openat|open \S+:|mkdir|` +
	`no such file|is a directory|unexpected EOF|end of JSON|invalid character|cannot unmarshal|unsupported value|[^.]yaml: |While parsing|Config Type|` +
	`not defined:|missing query|unexpected token|rpc error|dial tcp|lookup |bind: |listen tcp|\*?[a-z]+\.[A-Z]\w+Error|%!|h0m0s`)

// Whatever is wrong with a command line is said in our own words, with the exit code that scripts know.
func TestErrorsAreInOurOwnWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	brokenYAML, otherYAML, note := file("broken.yaml", "a: [\n"), file("other.yaml", "foo: bar\n"), file("note.txt", "x")
	missing, long := filepath.Join(dir, "nope.yaml"), strings.Repeat("x", 3000)
	id := "01890a5d-ac96-774b-bcce-b302099a8057"
	env := []string{"DATABASE_URL=" + outboxtest.DB(t).URL, "REDIS_URL=redis://127.0.0.1:1/0", "PUBSUB_EMULATOR_HOST=127.0.0.1:1", "GOOGLE_CLOUD_PROJECT=shop-dev"}

	for _, tc := range []struct {
		args string // words, separated by blanks; '' is an empty one
		want int
		says string
	}{
		{"foo", cli.ExitUsage, `unknown command "foo" for "outboxctl"`},
		{"''", cli.ExitUsage, "hint: outboxctl --help lists the commands\n"},
		{"dlq lst", cli.ExitUsage, "did you mean list?"},
		{"completion foo", cli.ExitUsage, `unknown command "foo" for "outboxctl completion"`},
		{"pause billing", cli.ExitUsage, `unknown command "billing" for "outboxctl pause"`},
		{"dlq show", cli.ExitUsage, "hint: usage: outboxctl dlq show ID"},
		{"dlq list --nosuch", cli.ExitUsage, "unknown flag: --nosuch\nhint: outboxctl dlq list --help lists the flags"},
		{"dlq list -o ''", cli.ExitUsage, `flag: "" is none of table`},
		{"dlq list --since yesterday", cli.ExitUsage, `"yesterday" is neither a time`},
		{"dlq list --jq ''", cli.ExitUsage, "flag: the expression is empty"},
		{"dlq list --jq .[", cli.ExitUsage, `flag: ".[" is not a jq expression: it ends too early`},
		{"dlq list --jq ,", cli.ExitUsage, `"," is not expected there`},
		{"dlq list --jq foo", cli.ExitUsage, "jq has no function foo/0"},
		{"dlq list --jq $foo", cli.ExitUsage, "jq has no variable $foo"},
		{"dlq list --jq .id", cli.ExitUsage, "--jq: the expression fails on this output"},
		{"dlq list --jq error(5)", cli.ExitUsage, "--jq: the expression fails on this output"},
		{"dlq list --jq 1e999", cli.ExitUsage, "--jq: the result has a number that JSON cannot write"},
		{"dlq list --type media_uploded", cli.ExitUsage, "did you mean media_uploaded?"},
		{"dlq list --aggregate store/7", cli.ExitUsage, `"7" is not a UUID, and the ids of this database are`},
		{"event show nope", cli.ExitUsage, `"nope" is not an id`},
		{"migrate --types foo", cli.ExitUsage, `flag: "foo" is none of text, enum`},
		{"event list --catalogue " + missing, cli.ExitUsage, "nope.yaml does not exist"},
		{"event list --catalogue " + dir, cli.ExitUsage, "is a folder"},
		{"registry check " + missing, cli.ExitUsage, "nope.yaml does not exist"},
		{"registry check " + brokenYAML, cli.ExitUsage, "is not YAML: check the indentation, brackets and quotes near line 1"},
		{"event list --config " + missing, cli.ExitUsage, "nope.yaml does not exist"},
		{"event list --config " + dir, cli.ExitUsage, "is a folder"},
		{"event list --config " + note, cli.ExitUsage, "must end in .yaml, .json or .toml"},
		{"event list --config " + brokenYAML, cli.ExitUsage, "check the indentation, brackets and quotes near line 1"},
		{"event list --config " + otherYAML, cli.ExitUsage, "foo (file " + otherYAML + "): no such setting"},
		{"event list --context nope", cli.ExitUsage, "no such context"},
		{"event list --database-url postgres://u:p@127.0.0.1:1/x", cli.ExitPrecondition, "no server answers there"},
		{"consumer show " + id, cli.ExitPrecondition, "ask Redis: no server answers there"},
		{"topic list", cli.ExitPrecondition, "on the emulator at 127.0.0.1:1): it does not answer"},
		{"publish --http-addr foo", cli.ExitUsage, `configuration: publish.http_addr (flag --http-addr): "foo" is not host:port`},
		{"consume --example --http-addr foo", cli.ExitUsage, `configuration: consume.http_addr (flag --http-addr): "foo" is not host:port`},
		{"ui --addr ''", cli.ExitUsage, `ui.addr (flag --addr): "" is not host:port`},
		{"ui --base-path foo", cli.ExitUsage, `"foo" is not a path such as /ops/outbox`},
		{"ui --addr 127.0.0.1:0 --tls-cert " + missing + " --tls-key " + missing, cli.ExitUsage, "does not exist"},
		{"dev --state-dir " + long, cli.ExitPrecondition, "is too long"},
		{"cleanup --inbox-older-than 1d", cli.ExitUsage, "--inbox-older-than 1d is less than idempotency.ttl (30d)"},
		{"emit --type media_uploded --aggregate-id " + id + " --data {}", cli.ExitUsage, "did you mean media_uploaded?"},
		{"emit --type media_uploaded --aggregate-id " + id + " --data @" + missing, cli.ExitUsage, "nope.yaml does not exist"},
		{"emit --type media_uploaded --aggregate-id " + id + " --data @" + dir, cli.ExitUsage, "is a folder"},
		{"emit --type media_uploaded --aggregate-id " + id + " --data {", cli.ExitUsage, "data is not valid JSON"},
		{"emit --type media_uploaded --aggregate-id " + id + " --data {} --max-attempts 0", cli.ExitUsage, "--max-attempts must be at least 1"},
		{"dlq edit " + id + " --data @" + missing, cli.ExitUsage, "nope.yaml does not exist"},
		{"dlq replay --yes " + id, cli.ExitNotFound, "not found: 1 id"},
		{"pause --topic biling", cli.ExitUsage, "did you mean billing?"},
		{"resume --topic biling", cli.ExitPrecondition, "topic biling is not paused"},
		{"audit show nope", cli.ExitUsage, `"nope" is not a run`},
		{"plan run " + id, cli.ExitNotFound, "no plan " + id},
		{"migrate --to 99999", cli.ExitNotFound, "no migration has version 99999"},
	} {
		t.Run(tc.args[:min(len(tc.args), 60)], func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(tc.args)
			for i, arg := range args {
				args[i] = strings.Trim(arg, "'")
			}
			code, _, talk := runCLI(t, env, args...)
			require.Equal(t, tc.want, code, talk)
			require.Contains(t, talk, tc.says)
			require.Empty(t, foreign.FindString(talk), talk)
			require.Less(t, len(talk), 2000)
		})
	}
}

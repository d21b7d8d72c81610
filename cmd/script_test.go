package cmd_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/kafkatest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/natstest"
	"github.com/outboxctl/outboxctl/internal/outboxtest/rabbittest"
)

// TestMain lets the stories run this binary as outboxctl, and the tests use real servers.
func TestMain(m *testing.M) {
	testscript.Main(withServers{m}, map[string]func(){
		"outboxctl": func() { os.Exit(cmd.Main(os.Args[1:], cli.OSStreams(), os.Environ())) },
	})
}

type withServers struct{ m *testing.M }

func (w withServers) Run() int {
	// A publisher inside this process would limit the memory of all tests together, which then do little but collect garbage.
	for name, value := range map[string]string{"GOMEMLIMIT": "off", "GOGC": "400"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	debug.SetGCPercent(400)
	// The Pub/Sub client's dependency starts this one when it is loaded and never stops it.
	// Its handler of stream pings notices the end of a stream at its next tick, up to ten seconds later.
	return outboxtest.Run(w.m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreAnyFunction("cloud.google.com/go/pubsub/v2.(*messageIterator).streamKeepAliveHandler"))
}

// TestScripts runs the whole-CLI stories. Beside testscript's own commands they have
//
//	run outboxctl ...  runs a command in this process; exec starts one, which a pipe, a signal, stdin and the story's own
//	                   files need
//	database [empty]   a fresh migrated (or empty) database, found through DATABASE_URL
//	sql QUERY          runs a query and prints its rows to stdout, cells separated by |
//	statedir           a state folder for a dev stack of the story's own
//	until PATTERN CMD  runs CMD until it succeeds and its standard output matches
//	keep VARIABLE      puts the first line of the last output into a variable
//	shell LINE         runs a line as a person would type it into a shell
//	broker NAME        a nats, kafka or rabbitmq of the story's own; the condition rabbitmq is whether there can be one
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"run": scriptRun,
			"database": func(ts *testscript.TestScript, _ bool, args []string) {
				create := outboxtest.DB
				if len(args) > 0 && args[0] == "empty" {
					create = outboxtest.EmptyDB
				}
				ts.Setenv("DATABASE_URL", create(t).URL)
			},
			"sql":      scriptSQL,
			"statedir": scriptStateDir(t),
			"until":    scriptUntil,
			"keep":     scriptKeep,
			"shell":    scriptShell,
			"broker":   scriptBroker(t),
		},
		Condition: func(name string) (bool, error) {
			if name != "rabbitmq" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			return rabbittest.Installed() || os.Getenv("OUTBOXCTL_REQUIRE_RABBITMQ") != "", nil
		},
	})
}

// scriptRun runs a command with the story's environment.
func scriptRun(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || args[0] != "outboxctl" {
		ts.Fatalf("usage: run outboxctl [args...]")
	}
	names := []string{"HOME", "OUTBOXCTL_CONFIG", "OUTBOXCTL_CONTEXT", "OUTBOXCTL_ACTOR"}
	for _, setting := range cli.Settings() {
		names = append(names, setting.EnvNames()...)
	}
	var env []string
	for _, name := range names {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	code, out, talk := cmd.RunText(context.Background(), env, "", args[1:]...)
	for w, text := range map[io.Writer]string{ts.Stdout(): out, ts.Stderr(): talk} {
		_, err := io.WriteString(w, text)
		ts.Check(err)
	}
	if (code == cli.ExitOK) == neg {
		ts.Fatalf("unexpected exit code %d", code)
	}
}

// scriptBroker starts a server, without topics.
func scriptBroker(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv("OUTBOXCTL_BROKER", args[0])
		switch args[0] {
		case "nats":
			ts.Setenv("OUTBOXCTL_NATS_URL", natstest.Start(t, nil).ClientURL())
		case "kafka":
			ts.Setenv("OUTBOXCTL_KAFKA_BROKERS", strings.Join(kafkatest.Start(t).ListenAddrs(), ","))
			ts.Setenv("OUTBOXCTL_KAFKA_REPLICATION", "1")
		case "rabbitmq":
			node, err := rabbittest.Start()
			ts.Check(err)
			ts.Defer(func() { ts.Check(node.Stop()) })
			node.Need(t) // fails where it is required and absent
			ts.Setenv("OUTBOXCTL_RABBITMQ_URL", node.URL(rabbittest.Admin))
		default:
			ts.Fatalf("no broker %s", args[0])
		}
	}
}

// scriptSQL prints what a query finds; with a pattern it asks until that matches, for what others on the same server
// change as well.
func scriptSQL(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 || neg {
		ts.Fatalf("usage: sql QUERY [PATTERN]")
	}
	found := query(ts, args[0])
	if len(args) == 2 {
		pattern, err := regexp.Compile("(?m)" + args[1])
		ts.Check(err)
		for end := time.Now().Add(untilTimeout); !pattern.MatchString(found) && time.Now().Before(end); {
			<-time.After(200 * time.Millisecond)
			found = query(ts, args[0])
		}
		if !pattern.MatchString(found) {
			ts.Fatalf("%s did not find %q within %s, but\n%s", args[0], args[1], untilTimeout, found)
		}
	}
	_, err := io.WriteString(ts.Stdout(), found)
	ts.Check(err)
}

func query(ts *testscript.TestScript, text string) string {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, text, pgx.QueryExecModeSimpleProtocol)
	ts.Check(err)
	defer rows.Close()
	var found strings.Builder
	for rows.Next() {
		cells := make([]string, len(rows.FieldDescriptions()))
		for i, raw := range rows.RawValues() {
			cells[i] = string(raw)
		}
		found.WriteString(strings.Join(cells, "|") + "\n")
	}
	ts.Check(rows.Err())
	return found.String()
}

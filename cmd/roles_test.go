package cmd

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
)

// plain is a login without any role of ours.
const plain = "plain"

// login makes a login of this world that is in a role, and returns the configuration file of one who uses it.
func (w *writerWorld) login(role string) (config string) {
	w.t.Helper()
	name, in := w.db.Name+"_"+role, " IN ROLE "+role
	if role == plain {
		in = ""
	}
	_, err := w.db.Pool.Exec(w.t.Context(), "CREATE ROLE "+name+" LOGIN PASSWORD 'x'"+in)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		_, err := w.db.Pool.Exec(context.WithoutCancel(w.t.Context()), "DROP ROLE "+name)
		require.NoError(w.t, err)
	})
	u, err := url.Parse(w.db.URL)
	require.NoError(w.t, err)
	u.User = url.UserPassword(name, "x")
	return w.config(u.String())
}

// as runs a command with a login's configuration.
func (w *writerWorld) as(config string, args ...string) (code int, out, stderr string) {
	w.t.Helper()
	own := w.env[2]
	defer func() { w.env[2] = own }()
	w.env[2] = "OUTBOXCTL_CONFIG=" + config
	return w.in(contextOpen, args...)
}

// Command × role: what each role is for works, and everything else is refused by the server with words that name the reason and
// what helps, having changed nothing in database, broker or Redis.
func TestCommandRoleMatrix(t *testing.T) {
	t.Parallel()
	operator := []string{"outbox_operator"}
	allowed := map[string][]string{
		"audit undo":      operator,
		"cleanup":         operator,
		"consume":         {}, // a consumer has rights of its own, on the tables of its effects
		"dlq discard":     operator,
		"dlq edit":        operator,
		"dlq replay":      operator,
		"dlq restore":     operator,
		"emit":            {"outbox_emitter"},
		"erase":           operator,
		"event republish": operator,
		"event retry":     operator,
		"consumer forget": operator,
		"consumer retry":  operator,
		"migrate":         {}, // the owner's
		"pause":           operator,
		"publish":         {"outbox_dispatcher"},
		"registry apply":  {},
		"resume":          operator,
		"plan abandon":    operator,
		"plan run":        operator,
		"plan stop":       operator,
	}
	for path, writer := range writers() {
		if path == "topic ensure" {
			continue // the broker's rights
		}
		roles, known := allowed[path]
		require.True(t, known, "say which roles may %q", path)
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newWriterWorld(t)
			if writer.prepare != nil {
				writer.prepare(w)
			}
			args := append(strings.Fields(path), writer.args(w)...)
			may := map[string]bool{}
			for _, role := range roles {
				may[role] = true
			}
			before := w.state()
			for _, role := range append(migrate.Roles(), plain) {
				if may[role] {
					continue
				}
				code, out, stderr := w.as(w.login(role), args...)
				require.Equal(t, cli.ExitPrecondition, code, "%s: %s%s", role, out, stderr)
				require.Regexp(t, `error: .*(permission denied for|must be owner of|may not)`, stderr, role)
				require.Regexp(t, `hint: .*(migrate grants|owner of the tables)`, stderr, role)
				w.unchanged(before, path+" as "+role)
			}
			for _, role := range roles {
				code, out, stderr := w.as(w.login(role), args...)
				require.Equal(t, cli.ExitOK, code, "%s: %s%s", role, out, stderr)
				require.NotEqual(t, before, w.state())
			}
		})
	}
}

package cmd

import (
	"context"
	"net/url"

	"github.com/stretchr/testify/require"
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

// allowed are the roles that may run each command that writes. topic ensure, which is missing, needs
// the broker's rights.
func allowed() map[string][]string {
	operator := []string{"outbox_operator"}
	return map[string][]string{
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
}

// as runs a command with a login's configuration.
func (w *writerWorld) as(config string, args ...string) (code int, out, stderr string) {
	w.t.Helper()
	own := w.env[2]
	defer func() { w.env[2] = own }()
	w.env[2] = "OUTBOXCTL_CONFIG=" + config
	return w.in(contextOpen, args...)
}

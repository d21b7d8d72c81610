package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Several names are a list, all is every context unless one is named so, and a name that the file has is that context.
func TestSeveral(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outboxctl.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	several := func(name string) []string {
		return NewApp(Streams{}, []string{"OUTBOXCTL_CONFIG=" + path, "OUTBOXCTL_CONTEXT=" + name}).Several()
	}
	write("contexts: {b: {}, a: {}, 'x,y': {}}")
	require.Nil(t, several(""))
	require.Nil(t, several("a"))
	require.Nil(t, several("nowhere"))
	require.Nil(t, several("x,y"))
	require.Equal(t, []string{"b", "a"}, several("b, a,b"))
	require.Equal(t, []string{"a", "b", "x,y"}, several("all"))
	write("contexts: {all: {}, a: {}}")
	require.Nil(t, several("all"))
}

// What a context would have set is not missed where the choice itself is wrong.
func TestAWrongContextIsTheOnlyProblem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(path, []byte("contexts: {a: {}, b: {}}"), 0o600))
	for name, want := range map[string]string{"a,b": "choose one context", "c": "no such context; there are a, b", "a": "database.url is not set"} {
		_, err := NewApp(Streams{}, []string{"OUTBOXCTL_CONFIG=" + path, "OUTBOXCTL_CONTEXT=" + name}).Config("database.url")
		require.ErrorContains(t, err, want)
		if name != "a" {
			require.NotContains(t, err.Error(), "is not set")
		}
	}
}

// Contexts with the same broker share its client; another project is another client.
func TestContextsShareTheBrokersClient(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`contexts:
  a: {pubsub: {project: acme, emulator: "127.0.0.1:1"}}
  b: {pubsub: {project: acme, emulator: "127.0.0.1:1"}}
  c: {pubsub: {project: other, emulator: "127.0.0.1:1"}}
`), 0o600))
	app := NewApp(Streams{}, []string{"OUTBOXCTL_CONFIG=" + path, "OUTBOXCTL_CONTEXT=all"})
	app.ShareBrokers()
	clients := map[string]any{}
	for _, name := range app.Several() {
		sub := app.InContext(name)
		client, err := sub.Broker(t.Context())
		require.NoError(t, err)
		clients[name] = client
		require.NoError(t, sub.Close())
	}
	require.Same(t, clients["a"], clients["b"])
	require.NotSame(t, clients["a"], clients["c"])
	require.NoError(t, app.Close())
}

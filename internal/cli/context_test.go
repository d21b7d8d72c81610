package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// A production context is named in every question, and above a hundred rows its name is the only yes.
func TestConfirmInAContext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		context Context
		rows    int64
		answer  string
		yes, ok bool
		asks    string
	}{
		"staging":                    {Context{Name: "staging"}, 5000, "y\n", false, true, "replay in context staging [y/N] "},
		"production":                 {Context{Name: "prod", Production: true}, 100, "y\n", false, true, "replay in context prod [y/N] "},
		"production, many rows":      {Context{Name: "prod", Production: true}, 101, "prod\n", false, true, "replay in context prod\ntype prod to continue: "},
		"production, many, only yes": {Context{Name: "prod", Production: true}, 101, "y\n", false, false, "replay in context prod\ntype prod to continue: "},
		"production, --yes":          {Context{Name: "prod", Production: true}, 5000, "", true, true, ""},
		"production, destroys":       {Context{Name: "prod", Production: true}, Destroys, "y\n", false, false, "replay in context prod\ntype prod to continue: "},
	} {
		var said bytes.Buffer
		app := NewApp(Streams{In: strings.NewReader(tc.answer), Err: &said, InTTY: true, ErrTTY: true}, []string{"NO_COLOR=1"})
		app.cfg = &Config{Context: &tc.context}
		err := app.Confirm(t.Context(), tc.yes, tc.rows, "replay")
		require.Equal(t, tc.ok, err == nil, "%s: %v", name, err)
		require.Equal(t, tc.asks, said.String(), name)
		if !tc.ok {
			kind, _ := fault.KindOf(err)
			require.Equal(t, fault.Refused, kind, name)
		}
	}
}

// A context beats the environment and the file, a flag beats it, and the servers it does not name are not taken from elsewhere.
func TestContextNamesItsServersWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
redis: {url: "redis://file"}
publish: {batch_size: 7}
contexts:
  one: {database: {url: "postgres://one"}, log: {level: warn}}
`), 0o600))
	load := func(flags map[string]string) *Config {
		cfg, problems := LoadConfig(ConfigSource{
			Flag: func(name string) (string, bool) { text, ok := flags[name]; return text, ok },
			env:  map[string]string{"DATABASE_URL": "postgres://env", "OUTBOXCTL_CONTEXT": "one", "REDIS_URL": "redis://env", "OUTBOXCTL_LOG_LEVEL": "debug", "OUTBOXCTL_UI_READ_URL": "postgres://replica"},
		})
		require.Empty(t, problems)
		return cfg
	}
	cfg := load(map[string]string{FlagConfig: path})
	require.Equal(t, "postgres://one", cfg.Database.URL)
	require.Equal(t, "warn", cfg.Log.Level)
	require.Empty(t, cfg.Redis.URL)
	require.Empty(t, cfg.UI.ReadURL, "a page that reads one database must not change another")
	require.Equal(t, 7, cfg.Publish.BatchSize)
	require.Equal(t, "postgres://flag", load(map[string]string{FlagConfig: path, "database-url": "postgres://flag"}).Database.URL)

	for text, want := range map[string]string{
		"contexts: [a]":                        "contexts (file ",
		"contexts: {a: 1}":                     "contexts.a (file ",
		"contexts: {a: {databse: {url: x}}}":   "contexts.a.databse",
		"contexts: {a: {production: perhaps}}": "contexts.a.production",
		"current_context: [a]":                 "current_context",
		"current_context: b":                   "b (file ",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, problems := LoadConfig(ConfigSource{Flag: func(name string) (string, bool) { return path, name == FlagConfig }})
		require.Len(t, problems, 1, text)
		require.Contains(t, problems[0], want, text)
	}
}

// The name of the current context is all that changes in a configuration file; where that cannot be, nothing does.
func TestSetCurrentContext(t *testing.T) {
	t.Parallel()
	const yaml = "# kept\nlog: {level: warn}\ncontexts:\n  one: {redis: {url: \"redis://one\"}}\n  \"1\": {}\n"
	const toml = "# kept\n[contexts.one.redis]\nurl = \"redis://one\"\n"
	for name, c := range map[string]struct{ file, text, set, want string }{
		"none before":          {"a.yaml", yaml, "one", strings.Replace(yaml, "log:", "current_context: \"one\"\nlog:", 1)},
		"another before":       {"a.yml", yaml + "current_context: two # chosen\n", "one", yaml + "current_context: \"one\"\n"},
		"removed":              {"a.yaml", "\"current_context\" : one\n" + yaml, "", yaml},
		"a name like a number": {"a.yaml", yaml, "1", strings.Replace(yaml, "log:", "current_context: \"1\"\nlog:", 1)},
		"behind the dashes":    {"a.yaml", "# head\n---\n" + yaml, "one", "# head\n---\n" + strings.Replace(yaml, "log:", "current_context: \"one\"\nlog:", 1)},
		"TOML":                 {"a.toml", "current_context = 'two'\n" + toml, "one", ""},
		"JSON":                 {"a.json", `{"contexts": {"one": {}}}`, "one", ""},
		"a flow":               {"a.yaml", "{contexts: {one: {}}}\n", "one", ""},
		"a document in a line": {"a.yaml", "--- {contexts: {one: {}}}\n", "one", ""},
		"more than one line":   {"a.yaml", yaml + "current_context:\n  two\n", "one", yaml + "current_context: \"one\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), c.file)
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o640))
			err := SetCurrentContext(path, c.set)
			if c.want == "" {
				require.ErrorContains(t, err, "set it by hand")
				c.want = c.text
			} else {
				require.NoError(t, err)
			}
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			left, err := os.ReadDir(filepath.Dir(path))
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
}

// What a context would have set is not missed where the choice itself is wrong.
func TestAWrongContextIsTheOnlyProblem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(path, []byte("contexts: {a: {}, b: {}}"), 0o600))
	for name, want := range map[string]string{"a,b": "no such context; there are a, b", "all": "no such context", "c": "no such context; there are a, b", "a": "database.url is not set"} {
		_, err := NewApp(Streams{}, []string{"OUTBOXCTL_CONFIG=" + path, "OUTBOXCTL_CONTEXT=" + name}).Config("database.url")
		require.ErrorContains(t, err, want)
		if name != "a" {
			require.NotContains(t, err.Error(), "is not set")
		}
	}
}

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A key that means nothing is a problem wherever it stands, and so is a value of the wrong form.
func TestConfigFileProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		yaml string
		want []string // problems, without the file's name
	}{
		"nothing":                   {"", nil},
		"values":                    {"publish: {batch_size: 60, lease: 1m}\nlog: {level: debug}\n", nil},
		"letter case":               {"Publish: {Batch_Size: 60}\n", nil},
		"section without settings":  {"publish:\nredis: {}\n", nil},
		"dotted key":                {"publish.batch_size: 60\n", nil},
		"known topics":              {"pubsub: {topics: {billing: pf-bills}}\n", nil},
		"misspelt section":          {"publsh: {lease: 1m}\n", []string{"publsh: no such setting"}},
		"misspelt, empty section":   {"publsh: {}\n", []string{"publsh: no such setting"}},
		"misspelt, null section":    {"publsh:\n", []string{"publsh: no such setting"}},
		"misspelt key":              {"publish: {leese: 1m}\n", []string{"publish.leese: no such setting"}},
		"misspelt key with a map":   {"publish: {leese: {}}\n", []string{"publish.leese: no such setting"}},
		"topic without a name":      {"pubsub: {topics: {bills: {}}}\n", []string{"pubsub.topics.bills: want one value"}},
		"section below a topic":     {"pubsub: {topics: {bills: {a: b}}}\n", []string{"pubsub.topics.bills: want one value"}},
		"value instead of section":  {"publish: 5\n", []string{"publish: want the settings of this section below it, not a value"}},
		"list instead of section":   {"pubsub: {topics: [a, b]}\n", []string{"pubsub.topics: want the settings of this section below it, not a value"}},
		"section instead of value":  {"publish: {lease: {seconds: 5}}\n", []string{"publish.lease: want one value"}},
		"list instead of value":     {"redis: {url: [redis://a]}\n", []string{"redis.url: want one value, not a list"}},
		"no value":                  {"publish: {lease: }\n", []string{"publish.lease: want one value"}},
		"a number as a key":         {"publish: {1: 2}\n", []string{"publish.1: no such setting"}},
		"several, in order":         {"zoo: 1\npublish: {lease: {}, a: 1}\n", []string{"publish.a: no such setting", "publish.lease: want one value", "zoo: no such setting"}},
		"value that cannot be read": {"publish: {lease: soon}\n", []string{`publish.lease: "soon" is not a duration such as 500ms, 30s, 12h, 30d or 2w`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "outboxctl.yaml")
			require.NoError(t, os.WriteFile(path, []byte(tc.yaml), 0o600))
			_, problems := LoadConfig(source(map[string]string{"config": path}, nil))
			var got []string
			for _, p := range problems {
				got = append(got, strings.Replace(p, " (file "+path+")", "", 1))
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// Every format that the library reads is held to the same rules.
func TestConfigFileFormats(t *testing.T) {
	t.Parallel()
	for ext, text := range map[string]string{
		"yaml": "publish: {batch_size: 60}\nbogus: {}\n",
		"json": `{"publish": {"batch_size": 60}, "bogus": {}}`,
		"toml": "[publish]\nbatch_size = 60\n[bogus]\n",
	} {
		path := filepath.Join(t.TempDir(), "outboxctl."+ext)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		cfg, problems := LoadConfig(source(map[string]string{"config": path}, nil))
		require.Equal(t, []string{"bogus (file " + path + "): no such setting"}, problems)
		require.Equal(t, 60, cfg.Publish.BatchSize, ext)
	}
}

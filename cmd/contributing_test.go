package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files and names that CONTRIBUTING.md sends a newcomer to exist.
func TestContributingNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	path := regexp.MustCompile("`((?:cmd|internal|emit|consume|dispatch|examples|migrations|testdata/script|lab|docs|scripts|tools|ui)/[A-Za-z0-9_./-]*|[a-z]+\\.go)`")
	named := path.FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(named), 30)
	for _, match := range named {
		require.True(t, exists(filepath.Join("..", match[1])), "%s is not there", match[1])
	}
	for file, name := range map[string]string{
		"internal/dlq/queries.go":   "const entryColumns",
		"internal/dlq/entry.go":     "type Entry struct",
		"cmd/dlq_list.go":           "func dlqView(",
		"internal/cli/broker.go":    "func brokers(",
		"ui/routes.go":              "func (h *Handler) table(",
		"cmd/secrets_test.go":       "func canaryArgs(",
		"dispatch/publisher.go":     "type Publisher interface",
		"internal/outbox/outbox.go": "type Outbox struct",
	} {
		source, err := os.ReadFile(filepath.Join("..", file))
		require.NoError(t, err)
		require.Contains(t, string(source), name)
		words := strings.Fields(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "("), " struct"), " interface"))
		require.Contains(t, string(text), "`"+words[len(words)-1]+"`")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

package registry_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/packfinderz"
)

var update = flag.Bool("update", false, "write the table in docs/events.md again")

const eventsDoc = "../../docs/events.md"

// The table people read is the catalogue, not a copy that ages.
func TestDocListsTheCatalogue(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(eventsDoc)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(content), "-update -->\n")
	require.True(t, ok, "start of the table")
	table, tail, ok := strings.Cut(rest, "<!-- /catalogue -->")
	require.True(t, ok, "end of the table")
	if *update {
		require.NoError(t, os.WriteFile(eventsDoc, []byte(head+"-update -->\n"+catalogueTable()+"<!-- /catalogue -->"+tail), 0o600))
		return
	}
	require.Equal(t, catalogueTable(), table, "run go test ./internal/registry -run Doc -update")
}

func catalogueTable() string {
	var b strings.Builder
	b.WriteString("\n| type | aggregate | topic | when | payload |\n|---|---|---|---|---|\n")
	for _, e := range (packfinderz.Catalogue{}).Types() {
		fields := make([]string, len(e.Fields))
		for i, f := range e.Fields {
			name := "`" + f.Name + "`"
			if !f.Required {
				name += "?"
			}
			fields[i] = name + " " + f.Type
		}
		b.WriteString("| `" + e.Name + "` | " + e.Aggregate + " | " + e.Topic + " | " + e.Description + " | " + strings.Join(fields, "; ") + " |\n")
	}
	b.WriteString("\n")
	return b.String()
}

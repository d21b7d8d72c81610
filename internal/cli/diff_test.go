package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADiffShowsWhatChangedAndALittleAround(t *testing.T) {
	t.Parallel()
	numbers := strings.Split("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", " ")
	for name, tc := range map[string]struct {
		was, is string
		want    string
	}{
		"one line replaced": {"{\n a\n b\n}", "{\n a\n c\n}", "  {\n   a\n-  b\n+  c\n  }\n"},
		"lines moved":       {"a\nb\nc", "b\nc\na", "- a\n  b\n  c\n+ a\n"},
		"far lines left out": {strings.Join(numbers, "\n"), strings.Replace(strings.Join(numbers, "\n"), "8", "eight", 1),
			"  …\n  5\n  6\n  7\n- 8\n+ eight\n  9\n  10\n  11\n  …\n"},
		"nothing in common":    {"a", "b\nc", "- a\n+ b\n+ c\n"},
		"a terminal is spared": {"a", "\x1b[2J", "- a\n+ ^[[2J\n"},
	} {
		var out bytes.Buffer
		NewApp(Streams{}, nil).WriteDiff(&out, false, tc.was, tc.is)
		require.Equal(t, tc.want, out.String(), name)
	}
}

package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestColour(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		flag string
		env  []string
		tty  bool
		want bool
	}{
		"a terminal":               {"", nil, true, true},
		"a pipe":                   {"", nil, false, false},
		"a dumb terminal":          {"", []string{"TERM=dumb"}, true, false},
		"NO_COLOR":                 {"", []string{"NO_COLOR=1", "CLICOLOR_FORCE=1"}, true, false},
		"forced on a pipe":         {"", []string{"CLICOLOR_FORCE=1"}, false, true},
		"not forced":               {"", []string{"CLICOLOR_FORCE=0"}, false, false},
		"the flag on a pipe":       {ColorAlways, []string{"NO_COLOR=1"}, false, true},
		"the flag on a terminal":   {ColorNever, []string{"CLICOLOR_FORCE=1"}, true, false},
		"auto is what it is alone": {ColorAuto, nil, true, true},
	} {
		app := NewApp(Streams{}, tc.env)
		app.lookup = func(string) (string, bool) { return tc.flag, tc.flag != "" }
		require.Equal(t, tc.want, app.Paint(tc.tty, StyleGood, "x") != "x", name)
	}
}

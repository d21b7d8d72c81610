package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBrowserCommand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		chosen, system string
		want           []string
	}{
		{"firefox --private-window", "linux", []string{"firefox", "--private-window"}},
		{"", "linux", []string{"xdg-open"}},
		{" ", "linux", []string{"xdg-open"}},
		{"", "darwin", []string{"open"}},
		{"", "windows", []string{"rundll32", "url.dll,FileProtocolHandler"}},
	} {
		require.Equal(t, tc.want, browserCommand(tc.chosen, tc.system))
	}
}

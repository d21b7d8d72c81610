package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAttributeLimits(t *testing.T) {
	t.Parallel()
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("k%d", i)] = "v"
		}
		return m
	}
	for _, c := range []struct {
		name  string
		attrs map[string]string
		want  string
	}{
		{"100 attributes", many(100), ""},
		{"101 attributes", many(101), "attributes too large: 101 attributes, at most 100 are allowed"},
		{"name of 256 bytes", map[string]string{strings.Repeat("k", 256): ""}, ""},
		{"name of 257 bytes", map[string]string{strings.Repeat("k", 257): ""}, "at most 256"},
		{"name of 257 bytes in fewer runes", map[string]string{strings.Repeat("é", 128) + "k": ""}, "at most 256"},
		{"value of 1,024 bytes", map[string]string{"k": strings.Repeat("v", 1024)}, ""},
		{"value of 1,025 bytes", map[string]string{"k": strings.Repeat("v", 1025)}, "at most 1024"},
		{"no name", map[string]string{"": "v"}, "has no name"},
		{"goog", map[string]string{"goog": "v"}, "keeps for itself"},
		{"googclient_x", map[string]string{"googclient_x": "v"}, "keeps for itself"},
		{"Goog-x", map[string]string{"Goog-x": "v"}, "keeps for itself"},
		{"goo", map[string]string{"goo": "v"}, ""},
		{"broken UTF-8", map[string]string{"k": "\xff"}, "not valid UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := PubSubLimits().Check([]byte(`{}`), c.attrs)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

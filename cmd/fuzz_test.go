package cmd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParseAggregate holds that what --aggregate was taken for is what was typed.
func FuzzParseAggregate(f *testing.F) {
	for _, text := range []string{"", "license", "018f3f6e-0000-7000-8000-00000000000a", "license/018f3f6e-0000-7000-8000-00000000000a", "/", "a/b/c", "{018f3f6e-0000-7000-8000-00000000000a}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kind, ids, err := parseAggregate(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(ids), 1)
		whole := kind
		for _, id := range ids {
			if kind != "" {
				whole += "/"
			}
			whole += id
		}
		againKind, againIDs, err := parseAggregate(whole)
		require.NoError(t, err, "%q was taken for %q", text, whole)
		require.Equal(t, kind, againKind)
		require.Equal(t, ids, againIDs)
	})
}

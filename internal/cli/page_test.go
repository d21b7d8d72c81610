package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrapWordsKeepsIDsWhole(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	text := "The order_canceled event " + id + " of vendor_order " + id + ", emitted 2 minutes ago, waits for its turn."
	for width := 1; width < 120; width++ {
		lines := strings.Split(Fill(strings.Fields(text), 0, 0, width), "\n")
		require.Equal(t, text, strings.Join(lines, " "), "nothing but line breaks is added")
		for _, line := range lines {
			if strings.Contains(line, " ") {
				require.LessOrEqual(t, len(line), width)
			}
		}
	}
	require.Equal(t, "Naïve\nwords", Fill([]string{"Naïve", "words"}, 0, 0, 6), "cells are counted, not bytes")
	require.Empty(t, Fill(nil, 0, 0, 80))
}

package safetext_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// A shell reads the very word, and words that need no quotes have none.
func TestQuoteWord(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "ann's shop; reboot", "$(id)", "`id`", `a\b"c`, "two\nlines", "*", "~", "#x", "-x y", "é", "!!"} {
		got, err := exec.Command("sh", "-c", "printf '%s' "+safetext.QuoteWord(word)).Output()
		require.NoError(t, err, word)
		require.Equal(t, word, string(got))
	}
	for _, plain := range []string{"staging", "01a1e6a0-72c0", "a@b.c", "./plan.json", "50%"} {
		require.Equal(t, plain, safetext.QuoteWord(plain))
	}
}

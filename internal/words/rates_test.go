package words_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/words"
)

func TestRatesAndShares(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"200": 200, "200/s": 200, "30/m": 0.5, "3600/h": 1} {
		got, err := words.ParseRate(text)
		require.NoError(t, err, text)
		require.InDelta(t, want, got, 1e-9, text)
	}
	for _, text := range []string{"", "0", "-1", "NaN", "x", "30/d", "1e10"} {
		_, err := words.ParseRate(text)
		require.ErrorContains(t, err, "200/s", text)
	}
	for text, want := range map[string]float64{"5%": 0.05, "0.05": 0.05, "0": 0, "100%": 1} {
		got, err := words.ParseShare(text)
		require.NoError(t, err, text)
		require.InDelta(t, want, got, 1e-9, text)
	}
	for _, text := range []string{"", "5", "101%", "-1%", "NaN", "x"} {
		_, err := words.ParseShare(text)
		require.ErrorContains(t, err, "5%", text)
	}
}

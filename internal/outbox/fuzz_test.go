package outbox

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzFingerprint holds that a fingerprint is short, that of a normalised error
// is the error's own, and that ids and numbers do not change it.
func FuzzFingerprint(f *testing.F) {
	for _, text := range []string{
		"", "topic missing", `cannot store "a b" after 250 ms`, "at 2026-01-02T03:04:05.678Z from 10.0.0.7:8085", "[::1]:443", `'unclosed`,
		"0xdeadbeef", "<n> <id>", "\xff", "a\u00a0 b", "018f3a5c-7e1b-7c3d-9a4e-5f6071829304",
	} {
		f.Add(text)
	}
	short := regexp.MustCompile(`^[0-9a-f]{12}$`)
	f.Fuzz(func(t *testing.T, text string) {
		normal := NormalizeError(text)
		require.Equal(t, normal, NormalizeError(normal), "what is normal stays so")
		require.NotRegexp(t, `[0-9]`, normal)
		kind := Fingerprint(ReasonMaxAttempts, text)
		require.Regexp(t, short, kind)
		require.Equal(t, kind, Fingerprint(ReasonMaxAttempts, normal))
		require.NotEqual(t, kind, Fingerprint(ReasonInvalidPayload, text))
		again := text + " 7 " + "018f3a5c-7e1b-7c3d-9a4e-5f6071829304"
		other := text + " 81 " + "ffffffff-ffff-ffff-ffff-ffffffffffff"
		require.Equal(t, Fingerprint(ReasonMaxAttempts, again), Fingerprint(ReasonMaxAttempts, other))
	})
}

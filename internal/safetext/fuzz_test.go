package safetext_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// actsOn tells what a terminal acts on: controls, and what reorders or hides
// its neighbours.
func actsOn(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0x2028 || r == 0x2029 || r == 0x200b || r == 0xfeff
}

// FuzzShow holds that nothing a terminal acts on comes out,
// that text without such things stays as it is, and that showing twice changes
// nothing more.
func FuzzShow(f *testing.F) {
	for _, seed := range []string{"", "\x1b]0;x\a", "\u009b31m", "\xff\xfe", "a\u202Eb", "=1+1", "a\r\nb\tc", "\U000E0041", "@x", "\u2066"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line, block := safetext.Line(s), safetext.Block(s)
		for _, got := range []string{line, block} {
			require.True(t, utf8.ValidString(got))
		}
		require.False(t, strings.ContainsFunc(line, actsOn), "%q", line)
		require.False(t, strings.ContainsFunc(block, func(r rune) bool { return actsOn(r) && r != '\n' && r != '\t' }), "%q", block)
		require.Equal(t, line, safetext.Line(line))
		require.Equal(t, block, safetext.Block(block))
		if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			require.Equal(t, s, line)
		}
	})
}

// FuzzJSON holds that a document keeps its meaning and loses what a terminal
// acts on.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{"", "\u009b31m", "a\u202Eb", "\u2028", "\U000E0041", "\x7f", "<&>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		doc, err := json.Marshal(map[string]string{"k": s})
		require.NoError(t, err)
		safe := safetext.JSON(doc)
		require.False(t, strings.ContainsFunc(string(safe), actsOn), "%q", safe)
		var want, got map[string]string
		require.NoError(t, json.Unmarshal(doc, &want))
		require.NoError(t, json.Unmarshal(safe, &got), "%s", safe)
		require.Equal(t, want, got)
	})
}

// FuzzStored holds that PostgreSQL takes what comes out, and that it is stored
// as it is when it is read back and stored again.
func FuzzStored(f *testing.F) {
	for _, seed := range []string{"", "a\x00b", "\xff", strings.Repeat("é", 700), "postgres://app:s3cret@db/x", "password='a b' x", "Bearer abcdefghij", "token=ab,cd",
		`{"access_token": "ab"}`, `{\"pwd\": \"ab\"}`, "Authorization: Basic ab", "private_key: -----BEGIN PRIVATE KEY-----ab", "postgres://token=a/b,c:d@e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := safetext.Stored(s)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), safetext.MaxStored)
		require.NotContains(t, got, "\x00")
		require.Equal(t, got, safetext.Stored(got))
	})
}

// FuzzRedact holds that a password in a connection string, escaped or not, is
// neither shown nor stored, wherever in a message the string stands.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{"s3cret", "a/b", "p@ss", "a b", "x?y", "#", "'", ":"} {
		f.Add(seed, "connect to ", ": refused")
	}
	f.Fuzz(func(t *testing.T, password, before, after string) {
		const canary = "cAnArY7"
		for _, r := range password {
			if unicode.IsSpace(r) || strings.ContainsRune("\"'`", r) {
				return // such a one has to be escaped for any driver to read it
			}
		}
		if strings.Contains(before+after, canary) || strings.Contains(password, canary) || !utf8.ValidString(password) || strings.ContainsRune(password, 0) {
			return
		}
		url := "postgres://app:" + canary + password + "@db/x"
		require.NotContains(t, safetext.URL(url), canary)
		require.NotContains(t, safetext.Redact(before+" "+url+" "+after), canary)
		require.NotContains(t, safetext.Stored(before+" "+url+" "+after), canary)
	})
}

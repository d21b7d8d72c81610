package jsonb

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// pairs reads a table of testdata: JSON and what is said of it, each as Go spells it.
// A test of the root module puts the same tables to PostgreSQL, so that they are not
// opinions.
func pairs(t testing.TB, name string) [][2]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var all [][2]string
	for line := range strings.Lines(string(text)) {
		in, out, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		in, err := strconv.Unquote(in)
		require.NoError(t, err, line)
		out, err = strconv.Unquote(out)
		require.NoError(t, err, line)
		all = append(all, [2]string{in, out})
	}
	return all
}

func TestBytesCountsWhatJSONBPrints(t *testing.T) {
	t.Parallel()
	for _, c := range pairs(t, "printed.tsv") {
		n, err := Bytes([]byte(c[0]), "data")
		require.NoError(t, err, c[0])
		require.Equal(t, len(c[1]), n, c[0])
	}
	n, err := Bytes([]byte(`1e131071`), "data")
	require.NoError(t, err)
	require.Equal(t, 131_072, n)
	n, err = Bytes([]byte(`1e-16383`), "data")
	require.NoError(t, err)
	require.Equal(t, 2+16_383, n)
}

func TestBytesRefusesWhatJSONBRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range pairs(t, "refused.tsv") {
		_, err := Bytes([]byte(c[0]), "data")
		require.ErrorContains(t, err, c[1], c[0])
	}
}

func TestBytesRefusesDuplicatesAndDepth(t *testing.T) {
	t.Parallel()
	_, err := Bytes([]byte(`{"a":{"b":1,"c":2,"\u0062":3}}`), "data")
	require.EqualError(t, err, "data.a.b appears twice in its object")
	_, err = Bytes([]byte(`{"a":{"b":1},"c":{"b":1},"b":1}`), "data")
	require.NoError(t, err, "the same name in other objects is fine")

	var many strings.Builder
	for i := range 5_000 {
		many.WriteString(`"` + strings.Repeat("k", i%50) + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `":1,`)
	}
	_, err = Bytes([]byte(`{`+many.String()+`"last":1}`), "data")
	require.NoError(t, err)
	_, err = Bytes([]byte(`{"last":0,`+many.String()+`"last":1}`), "data")
	require.EqualError(t, err, "data.last appears twice in its object")

	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, err = Bytes(deep(MaxDepth-1), "data")
	require.NoError(t, err)
	_, err = Bytes(deep(MaxDepth), "data")
	require.ErrorContains(t, err, "nested more than 500 levels deep")
	_, err = Bytes(deep(1_000_000), "data")
	require.ErrorContains(t, err, "nested more than 500 levels deep")
}

// However deep the problem is, the text says where it begins and ends, and why.
func TestBytesShortensALongPath(t *testing.T) {
	t.Parallel()
	in := func(levels int) []byte {
		return []byte(strings.Repeat(`{"é":`, levels) + `{"last":"\u0000"}` + strings.Repeat(`}`, levels))
	}
	const problem = ` holds \u0000, which PostgreSQL cannot store`
	_, err := Bytes(in(3), "data")
	require.EqualError(t, err, "data.é.é.é.last"+problem)
	for levels := 30; levels < 60; levels++ { // cuts at every byte of é
		_, err = Bytes(in(levels), "data")
		text := err.Error()
		require.True(t, utf8.ValidString(text), text)
		require.Regexp(t, `^data\.é\.é\.é.*\.é\.é\.é\.last holds `, text)
		require.LessOrEqual(t, len(text), 128+len(problem), text)
	}
}

// FuzzJSONB holds that the walker accepts nothing encoding/json calls invalid, and
// that what it refuses of valid JSON it refuses for one of the reasons it knows.
func FuzzJSONB(f *testing.F) {
	for _, c := range pairs(f, "printed.tsv") {
		f.Add([]byte(c[0]))
	}
	for _, c := range pairs(f, "refused.tsv") {
		f.Add([]byte(c[0]))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := Bytes(text, "data")
		if valid := json.Valid(text); err == nil && !valid {
			t.Fatalf("accepted invalid JSON %q", text)
		} else if err != nil && valid && strings.Contains(err.Error(), "not valid JSON") {
			t.Fatalf("refused valid JSON %q: %v", text, err)
		}
	})
}

// Elements are what encoding/json finds in an array.
func TestElements(t *testing.T) {
	t.Parallel()
	for _, array := range []string{`[]`, `[ ]`, `[1]`, `["a", "b]", {"c": [1, 2]}, [], null, -1.5e3 , true]`, "[\n\"\\\"\" ,\t2 ]"} {
		var want []json.RawMessage
		if err := json.Unmarshal([]byte(array), &want); err != nil {
			t.Fatal(err)
		}
		n := 0
		for i, element := range Elements([]byte(array)) {
			if i != n || i >= len(want) || string(want[i]) != string(element) {
				t.Fatalf("%s: element %d is %s", array, i, element)
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("%s: %d elements, want %d", array, n, len(want))
		}
	}
}

// What is looked at in eights ends where it would byte by byte, wherever that is among them.
func TestPlainEndsAtTheFirstSpecialByte(t *testing.T) {
	t.Parallel()
	special := func(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf }
	for length := range 20 {
		require.Equal(t, length, plain([]byte(strings.Repeat("a", length))))
		for at := range length {
			for c := range 256 {
				for _, around := range []string{"a", "!", "\x7f", "#", "["} { // beside the special ones
					text := []byte(strings.Repeat(around, length))
					text[at] = byte(c)
					want := length
					if special(byte(c)) {
						want = at
					}
					require.Equal(t, want, plain(text), "%q", text)
				}
			}
		}
		for first := range length { // several: the first counts
			text := []byte(strings.Repeat("a", first) + strings.Repeat("\x1f\"\\\x80\x00", 5))
			require.Equal(t, first, plain(text), "%q", text)
		}
	}
}

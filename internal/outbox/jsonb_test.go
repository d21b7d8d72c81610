package outbox

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// printedAs pairs JSON with what jsonb prints for it. A test against PostgreSQL
// holds the same table, so the expectations are not opinions.
var printedAs = []struct{ in, out string }{
	{`{}`, `{}`}, {`[]`, `[]`}, {` { } `, `{}`}, {`[ ]`, `[]`},
	{`{"a":1,"b":[1,2,{"c":null}]}`, `{"a": 1, "b": [1, 2, {"c": null}]}`},
	{`[true,false,null]`, `[true, false, null]`},
	{`"\u0041\/\u00e9"`, `"A/é"`}, {`"é😀"`, `"é😀"`}, {`"\ud83d\ude00"`, `"😀"`},
	{`"\b\f\n\r\t\"\\"`, `"\b\f\n\r\t\"\\"`}, {`"\u000a\u0001\u001f\u007f"`, "\"\\n\\u0001\\u001f\u007f\""},
	{`0`, `0`}, {`-0`, `0`}, {`-0.00`, `0.00`}, {`1.50`, `1.50`}, {`-1.5e0`, `-1.5`},
	{`1e6`, `1000000`}, {`1E+6`, `1000000`}, {`1.25e1`, `12.5`}, {`1.25e2`, `125`}, {`12e-1`, `1.2`},
	{`1e-5`, `0.00001`}, {`0.001e5`, `100`}, {`0.00e5`, `0`}, {`0.0e-3`, `0.0000`}, {`0e100`, `0`},
	{`123456789012345678901234567890`, `123456789012345678901234567890`},
	{`{"\u0061b":1}`, `{"ab": 1}`},
}

func TestJSONBBytesCountsWhatJSONBPrints(t *testing.T) {
	t.Parallel()
	for _, c := range printedAs {
		n, err := jsonbBytes([]byte(c.in), "data")
		require.NoError(t, err, c.in)
		require.Equal(t, len(c.out), n, c.in)
	}
	n, err := jsonbBytes([]byte(`1e131071`), "data")
	require.NoError(t, err)
	require.Equal(t, 131_072, n)
	n, err = jsonbBytes([]byte(`1e-16383`), "data")
	require.NoError(t, err)
	require.Equal(t, 2+16_383, n)
}

// refused holds what jsonb does not take, with the problem and where it is.
var refused = []struct{ in, problem string }{
	{``, "data is not valid JSON"}, {`{`, "data is not valid JSON"}, {`{"a"}`, "data is not valid JSON"},
	{`{"a":1,}`, "data is not valid JSON"}, {`[1,]`, "data[1] is not valid JSON"}, {`[1 2]`, "data is not valid JSON"},
	{`01`, "data is not valid JSON"}, {`-`, "data is not valid JSON"}, {`1.`, "data is not valid JSON"},
	{`.5`, "data is not valid JSON"}, {`1e`, "data is not valid JSON"}, {`nul`, "data is not valid JSON"},
	{`"a`, "data is not valid JSON"}, {"\"a\nb\"", "data is not valid JSON"}, {`"\x"`, "data is not valid JSON"},
	{`"\u12"`, "data is not valid JSON"}, {`"\u+123"`, "data is not valid JSON"},
	{`{} {}`, "data is not valid JSON: there is text after its end"}, {`{},"x":1`, "text after its end"},
	{`{"a":{"b":["x","\u0000"]}}`, `data.a.b[1] holds \u0000`}, {`{"\u0000":1}`, `data holds \u0000`},
	{`{"a":"\ud800"}`, "data.a holds half of a surrogate pair"}, {`{"a":"\ude00"}`, "data.a holds half"},
	{`{"a":"\ud800\u0041"}`, "data.a holds half"}, {`{"a":"\ud800x"}`, "data.a holds half"},
	{"{\"a\":\"\xff\"}", "data.a is not valid UTF-8"}, {"{\"\xc3\":1}", "data is not valid UTF-8"},
	{"[\"\xed\xa0\x80\"]", "data[0] is not valid UTF-8"},
	{`[1e131072]`, "data[0] is a number outside"}, {`1e-16384`, "data is a number outside"},
	{`1e99999999999999999999`, "outside the range"}, {`-1e-99999999999999999999`, "outside the range"},
}

func TestJSONBBytesRefusesWhatJSONBRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range refused {
		_, err := jsonbBytes([]byte(c.in), "data")
		require.ErrorContains(t, err, c.problem, c.in)
	}
}

func TestJSONBBytesRefusesDuplicatesAndDepth(t *testing.T) {
	t.Parallel()
	_, err := jsonbBytes([]byte(`{"a":{"b":1,"c":2,"\u0062":3}}`), "data")
	require.EqualError(t, err, "data.a.b appears twice in its object")
	_, err = jsonbBytes([]byte(`{"a":{"b":1},"c":{"b":1},"b":1}`), "data")
	require.NoError(t, err, "the same name in other objects is fine")

	var many strings.Builder
	for i := range 5_000 {
		many.WriteString(`"` + strings.Repeat("k", i%50) + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `":1,`)
	}
	_, err = jsonbBytes([]byte(`{`+many.String()+`"last":1}`), "data")
	require.NoError(t, err)
	_, err = jsonbBytes([]byte(`{"last":0,`+many.String()+`"last":1}`), "data")
	require.EqualError(t, err, "data.last appears twice in its object")

	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, err = jsonbBytes(deep(maxJSONDepth-1), "data")
	require.NoError(t, err)
	_, err = jsonbBytes(deep(maxJSONDepth), "data")
	require.ErrorContains(t, err, "nested more than 500 levels deep")
	_, err = jsonbBytes(deep(1_000_000), "data")
	require.ErrorContains(t, err, "nested more than 500 levels deep")
}

// However deep the problem is, the text says where it begins and ends, and why.
func TestJSONBShortensALongPath(t *testing.T) {
	t.Parallel()
	in := func(levels int) []byte {
		return []byte(strings.Repeat(`{"é":`, levels) + `{"last":"\u0000"}` + strings.Repeat(`}`, levels))
	}
	const problem = ` holds \u0000, which PostgreSQL cannot store`
	_, err := jsonbBytes(in(3), "data")
	require.EqualError(t, err, "data.é.é.é.last"+problem)
	for levels := 30; levels < 60; levels++ { // cuts at every byte of é
		_, err = jsonbBytes(in(levels), "data")
		text := err.Error()
		require.True(t, utf8.ValidString(text), text)
		require.Regexp(t, `^data\.é\.é\.é.*\.é\.é\.é\.last holds `, text)
		require.LessOrEqual(t, len(text), 128+len(problem), text)
	}
}

// FuzzJSONB holds that the walker accepts nothing encoding/json calls invalid, and
// that what it refuses of valid JSON it refuses for one of the reasons it knows.
func FuzzJSONB(f *testing.F) {
	for _, c := range printedAs {
		f.Add([]byte(c.in))
	}
	for _, c := range refused {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := jsonbBytes(text, "data")
		if valid := json.Valid(text); err == nil && !valid {
			t.Fatalf("accepted invalid JSON %q", text)
		} else if err != nil && valid && strings.Contains(err.Error(), "not valid JSON") {
			t.Fatalf("refused valid JSON %q: %v", text, err)
		}
	})
}

package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSameJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[true,null,"x"]}`, `{"b": [true, null, "x"], "a": 1}`, true},
		{`100`, `1e2`, true},
		{`1.50`, `15E-1`, true},
		{`-0.0`, `0`, true},
		{`1e999999999`, `1e999999998`, false},
		{`12345678901234567890`, `12345678901234567891`, false},
		{`-1`, `1`, false},
		{`1`, `"1"`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `[1,1]`, false},
		{`{"a":null}`, `{}`, false},
		{`{"a":null}`, `{"b":null}`, false},
		{`"\u00e9"`, `"é"`, true},
		{``, `null`, false},
		{`{}`, `{`, false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.same, sameJSON([]byte(tt.a), []byte(tt.b)), "%s and %s", tt.a, tt.b)
		require.Equal(t, tt.same, sameJSON([]byte(tt.b), []byte(tt.a)), "%s and %s", tt.b, tt.a)
	}
}

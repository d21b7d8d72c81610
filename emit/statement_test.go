package emit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatementsStayWithinBounds(t *testing.T) {
	t.Parallel()
	small := make([]Prepared, 1_200)
	for i := range small {
		small[i].row = json.RawMessage(`{}`)
	}
	n, text := statement(small)
	require.Equal(t, maxEventsPerStatement, n)
	require.Equal(t, "["+strings.Repeat("{},", n-1)+"{}]", text)

	large := Prepared{row: make(json.RawMessage, 9_000_000)}
	n, _ = statement([]Prepared{large, large})
	require.Equal(t, 1, n)
	n, _ = statement([]Prepared{{row: make(json.RawMessage, maxBytesPerStatement+1)}, large})
	require.Equal(t, 1, n, "an event larger than the bound goes alone")
}

package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What jq wrote has its keys sorted: only what was corrected is shown as a difference.
func TestAPayloadThatWasSortedIsComparedSorted(t *testing.T) {
	t.Parallel()
	was := []byte(`{"b": "18", "aa": {"d": 1, "c": "<"}}`)
	require.Equal(t, "{\n  \"aa\": {\n    \"c\": \"<\",\n    \"d\": 1\n  },\n  \"b\": \"18\"\n}", indentedLike(was, []byte(`{"aa":{"c":"<","d":1},"b":18}`)))
	require.Equal(t, indented(was), indentedLike(was, []byte(`{"b":18,"aa":{"d":1,"c":"<"}}`)))
}

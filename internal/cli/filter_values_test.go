package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Ids are read by the rule of all commands, whatever they are of.
func TestAggregatesAndTenantsAreReadLikeIDs(t *testing.T) {
	t.Parallel()
	const id, upper = "018f3f6e-0000-7000-8000-00000000000a", "018F3F6E-0000-7000-8000-00000000000A"
	for raw, want := range map[string]struct {
		kind string
		ids  []string
	}{
		"": {}, "license": {"license", nil}, id: {"", []string{id}}, upper: {"", []string{id}}, "license/" + upper: {"license", []string{id}},
		"{" + id + "}": {"{" + id + "}", nil}, // not an id, so a type, which the database refuses
	} {
		kind, ids, err := ParseAggregate(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want.kind, kind, raw)
		require.Equal(t, want.ids, ids, raw)
	}
	for _, raw := range []string{"/", "license/", "/" + id, "license/odd", "license/{" + id + "}", "license/00000000-0000-0000-0000-000000000000"} {
		_, _, err := ParseAggregate(raw)
		require.ErrorContains(t, err, "--aggregate", raw)
	}
	tenants, err := ParseTenants([]string{upper, id})
	require.NoError(t, err)
	require.Equal(t, []string{id, id}, tenants)
	_, err = ParseTenants([]string{id, "urn:uuid:" + id})
	require.ErrorContains(t, err, "--tenant")
}

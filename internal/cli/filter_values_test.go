package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Tenants are read by the rule of all ids; an aggregate's id may be any text.
func TestAggregatesAndTenants(t *testing.T) {
	t.Parallel()
	const id, upper = "018f3f6e-0000-7000-8000-00000000000a", "018F3F6E-0000-7000-8000-00000000000A"
	for raw, want := range map[string]struct {
		kind string
		ids  []string
	}{
		"": {}, "license": {"license", nil}, id: {"", []string{id}}, upper: {"", []string{upper}}, "license/" + upper: {"license", []string{upper}},
		"42": {"", []string{"42"}}, "order/42": {"order", []string{"42"}}, "/A-17": {"", []string{"A-17"}}, "order/2026/17": {"order", []string{"2026/17"}},
		"{" + id + "}": {"{" + id + "}", nil}, // not an id, so a type, which the database refuses
	} {
		kind, ids, err := outbox.ParseAggregate(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want.kind, kind, raw)
		require.Equal(t, want.ids, ids, raw)
	}
	for _, raw := range []string{"/", "license/", "license/00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"} {
		_, _, err := outbox.ParseAggregate(raw)
		require.ErrorContains(t, err, "--aggregate", raw)
	}
	tenants, err := outbox.ParseTenants([]string{upper, id})
	require.NoError(t, err)
	require.Equal(t, []string{id, id}, tenants)
	_, err = outbox.ParseTenants([]string{id, "urn:uuid:" + id})
	require.ErrorContains(t, err, "--tenant")
}

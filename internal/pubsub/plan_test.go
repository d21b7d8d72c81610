package pubsub

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	got := Plan(map[string]string{
		"domain":        "pf-domain-events",
		"billing":       "pf-billing-events",
		"notifications": "pf-domain-events",
	}, map[string]string{"domain": "orders-reader"})
	require.Equal(t, []PlannedTopic{
		{
			Logical: []string{"billing"}, Name: "pf-billing-events", Subscription: "pf-billing-events-sub",
			DeadLetterTopic: "pf-billing-events-dead-letter", DeadLetterSubscription: "pf-billing-events-dead-letter-sub",
		},
		{
			Logical: []string{"domain", "notifications"}, Name: "pf-domain-events", Subscription: "orders-reader",
			DeadLetterTopic: "pf-domain-events-dead-letter", DeadLetterSubscription: "pf-domain-events-dead-letter-sub",
		},
	}, got)
}

func TestValidateName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"pf-domain-events":                   true,
		"abc":                                true,
		"a.b_c~d+e%f":                        true,
		"projects/other/topics/orders":       true,
		strings.Repeat("a", 255):             true,
		strings.Repeat("a", 256):             false,
		"":                                   false,
		"ab":                                 false,
		"1abc":                               false,
		"google-things":                      false,
		"with space":                         false,
		"projects/other/topics/1":            false,
		"projects/other/orders":              false,
		"projects//topics/orders":            false,
		"projects/other/topics/orders/extra": false,
	} {
		require.Equal(t, ok, ValidateName(name) == nil, name)
	}
}

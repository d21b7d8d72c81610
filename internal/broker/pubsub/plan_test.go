package pubsub

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	got := Plan(map[string]string{
		"domain":        "pf-domain-events",
		"billing":       "pf-billing-events",
		"notifications": "pf-domain-events",
	}, map[string]string{"domain": "orders-reader"})
	require.Equal(t, []broker.PlannedTopic{
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
	for kind, other := range map[string]string{broker.KindTopic: broker.KindSubscription, broker.KindSubscription: broker.KindTopic} {
		for name, ok := range map[string]bool{
			"pf-domain-events":                     true,
			"abc":                                  true,
			"a.b_c~d+e%f":                          true,
			strings.Repeat("a", 255):               true,
			strings.Repeat("a", 256):               false,
			"":                                     false,
			"ab":                                   false,
			"1abc":                                 false,
			"with space":                           false,
			"google-things":                        false,
			"Google-things":                        false,
			"projects/other/" + kind + "s/orders":  true,
			"projects/other/" + other + "s/orders": false,
			"projects/other/" + kind + "s/1":       false,
			"projects/other/" + kind + "s/google":  false,
			"projects/other/orders":                false,
			"projects//" + kind + "s/orders":       false,
			"projects/o ther/" + kind + "s/orders": false,
			"projects/other/" + kind + "s/orders/too": false,
		} {
			require.Equal(t, ok, ValidateName(kind, name) == nil, "%s %q", kind, name)
		}
	}
}

package outbox

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

var someNames = Names{
	{AllNamespaces, "order.ready", "order.ready", "orders"},
	{AllNamespaces, "order.prepared", "order.prepared", "orders"},
	{AllNamespaces, "order.made", "order.prepared", "orders"}, // its former name
	{"shop", "order.ready", "order.ready", "shop-orders"},
	{"shop", "order.made", "order.made", "shop-orders"}, // a type of its own
	{"till", "order.ready", "order.ready", "orders"},
	{"till", "paid", "paid", "orders"},
}

func TestTypesKnowTheirNamespaces(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"orders", "shop-orders"}, someNames.Topics())
	for _, tc := range []struct {
		name  string
		types Types
		want  []string
	}{
		{"a topic", someNames.OnTopic("orders"), []string{" order.made shop", " order.ready shop", "* order.made", "* order.ready", "order.prepared", "till paid"}},
		{"the topic of one namespace", someNames.OnTopic("shop-orders"), []string{"shop order.made", "shop order.ready"}},
		{"no topic", someNames.OnTopic("none"), []string{}},
		{"a renamed type", someNames.Called("order.prepared"), []string{" order.made shop", "* order.made", "order.prepared"}},
		{"by its former name", someNames.Called("order.made"), []string{"order.made", "order.prepared"}},
		{"two types", someNames.Called("paid", "order.ready"), []string{"order.ready", "paid"}},
		{"a type of no catalogue", someNames.Called("odd"), []string{"odd"}},
		{"both topics", someNames.OnTopic("orders").Or(someNames.OnTopic("shop-orders")), []string{"order.made", "order.prepared", "order.ready", "till paid"}},
		{"the part of a topic", someNames.OnTopic("orders").And(Everywhere("order.ready")), []string{" order.ready shop", "* order.ready"}},
		{"no part of a topic", someNames.OnTopic("shop-orders").And(Everywhere("paid")), []string{}},
		{"a topic in a namespace", someNames.OnTopic("orders").In("shop"), []string{"shop order.prepared"}},
		{"by namespace", ByNamespace(map[string][]string{"*": {"a"}, "shop": {"a", "b"}, "till": {"b"}}), []string{"a", "shop b", "till b"}},
	} {
		require.Equal(t, tc.want, tc.types.Texts(), tc.name)
		require.Equal(t, len(tc.want) == 0, len(tc.types) == 0, tc.name)
	}
}

// Sets are what their members say, whatever they were made of.
func TestTypesAreSets(t *testing.T) {
	t.Parallel()
	sets := []Types{
		nil, Everywhere("order.ready"), someNames.OnTopic("orders"), someNames.OnTopic("shop-orders"), someNames.Called("order.prepared"),
		ByNamespace(map[string][]string{"till": {"order.ready"}, "shop": {"order.made"}}), someNames.OnTopic("orders").In("till"),
	}
	for i, a := range sets {
		for j, b := range sets {
			or, and := a.Or(b), a.And(b)
			for _, name := range []string{"order.ready", "order.prepared", "order.made", "paid", "odd"} {
				for _, namespace := range []string{"default", "shop", "till"} {
					about := fmt.Sprint(i, j, namespace, name)
					require.Equal(t, a.Has(namespace, name) || b.Has(namespace, name), or.Has(namespace, name), about)
					require.Equal(t, a.Has(namespace, name) && b.Has(namespace, name), and.Has(namespace, name), about)
				}
			}
		}
	}
}

// The database chooses the rows that the sets have.
func TestChosenIsWhatTypesHave(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	for _, types := range []Types{
		{}, Everywhere("order.ready"), someNames.OnTopic("orders"), someNames.OnTopic("shop-orders"), someNames.Called("order.prepared"),
		someNames.OnTopic("orders").Or(someNames.OnTopic("shop-orders")),
	} {
		for _, name := range []string{"order.ready", "order.prepared", "order.made", "paid"} {
			for _, namespace := range []string{"default", "shop", "till", "*"} {
				var chosen bool
				sql := `SELECT ` + Chosen("$1") + ` FROM (VALUES ($2::text, $3::text, NULL::uuid)) AS e (namespace, event_type, tenant_id)`
				require.NoError(t, pool.QueryRow(t.Context(), sql, types.Texts(), namespace, name).Scan(&chosen))
				require.Equal(t, types.Has(namespace, name), chosen, "%v %s %s", types.Texts(), namespace, name)
			}
		}
	}
}

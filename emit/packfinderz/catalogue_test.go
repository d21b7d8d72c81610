package packfinderz

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The contract, written down a second time on purpose: a slip in the catalogue
// would send events to the wrong topic, and nothing else would notice.
const contract = `
order_created            checkout_group domain        checkoutGroupId vendorOrderIds
order_state_changed      vendor_order   domain        orderId checkoutGroupId? from to reason?
line_item_state_changed  vendor_order   domain        orderId lineItemId from to
license_status_changed   license        domain        licenseId storeId status reason?
media_uploaded           media          domain        mediaId storeId kind sizeBytes?
payment_settled          ledger_event   billing       orderId paymentIntentId amountCents settledAt
cash_collected           vendor_order   billing       orderId buyerStoreId vendorStoreId amountCents cashCollectedAt
vendor_payout_recorded   ledger_event   billing       orderId vendorStoreId amountCents paidAt
notification_requested   notification   notifications orderId? recipientStoreId type
order_expired            vendor_order   domain        orderId checkoutGroupId expiredAt ttlDays?
order_canceled           vendor_order   domain        orderId checkoutGroupId canceledAt reason?
reservation_released     vendor_order   domain        orderId lineItemId? quantity?
ad_created               ad             analytics     adId storeId at changes?
ad_updated               ad             analytics     adId storeId at changes?
ad_paused                ad             analytics     adId storeId at changes?
ad_activated             ad             analytics     adId storeId at changes?
ad_expired               ad             analytics     adId storeId at changes?
ad_daily_rollup_ready    ad             analytics     adId date impressions clicks spendCents
`

func TestCatalogueIsTheContract(t *testing.T) {
	t.Parallel()
	r := Catalogue{}
	var got, want []string
	for _, line := range strings.Split(strings.TrimSpace(contract), "\n") {
		want = append(want, strings.Join(strings.Fields(line), " "))
	}
	for _, e := range r.Types() {
		words := []string{e.Name, e.Aggregate, e.Topic}
		for _, f := range e.Fields {
			if f.Required {
				words = append(words, f.Name)
			} else {
				words = append(words, f.Name+"?")
			}
		}
		got = append(got, strings.Join(words, " "))
		require.NotEmpty(t, e.Description)

		aggregate, topic, ok := r.Resolve(e.Name)
		require.True(t, ok)
		require.Equal(t, []string{e.Aggregate, e.Topic}, []string{aggregate, topic})
		require.Contains(t, AggregateTypes(), aggregate)
	}
	require.Equal(t, want, got)
}

func TestConstantsAndListsAgree(t *testing.T) {
	t.Parallel()
	var names []string
	topics := map[string]bool{}
	for _, e := range types {
		names = append(names, e.Name)
		topics[e.Topic] = true
	}
	require.ElementsMatch(t, names, constants(t, "Type"))
	require.ElementsMatch(t, AggregateTypes(), constants(t, "Aggregate"))
	require.ElementsMatch(t, slices.Collect(maps.Keys(topics)), constants(t, "Topic"))
}

// constants reads the values of the string constants with a prefix from types.go.
func constants(t *testing.T, prefix string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, 0)
	require.NoError(t, err)
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, prefix) {
			literal, ok := spec.Values[0].(*ast.BasicLit)
			require.True(t, ok)
			value, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			values = append(values, value)
		}
		return true
	})
	return values
}

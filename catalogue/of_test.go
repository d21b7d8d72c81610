package catalogue_test

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
)

type base struct {
	OrderID string `json:"orderId"`
}

type Extra struct {
	Colour string `json:"colour"`
}

type named struct{ Inner int }

type readyOrder struct {
	base
	*Extra
	Named    named            `json:"named"`
	Door     int              `json:"door"`
	Count    uint             `json:"count,string"`
	Price    float64          `json:"price,omitempty"`
	Ready    bool             `json:"ready"`
	At       time.Time        `json:"at"`
	Until    *time.Time       `json:"until"`
	Items    []item           `json:"items"`
	Pair     [2]int           `json:"pair"`
	Tags     map[string]int8  `json:"tags,omitzero"`
	From     netip.Addr       `json:"from"`
	Raw      json.RawMessage  `json:"raw,omitempty"`
	Blob     []byte           `json:"blob"`
	Any      any              `json:"any"`
	Secret   string           `json:"-"`
	Dash     string           `json:"-,"` //nolint:staticcheck // the key is a dash
	inside   string           //nolint:unused // not encoded
	Untagged map[string][]any `json:",omitempty"`
}

type item struct {
	SKU string `json:"sku"`
}

// What encoding/json writes of a T is what the schema of T takes.
func TestOfTakesWhatIsEncoded(t *testing.T) {
	t.Parallel()
	c, err := catalogue.New("doorito", catalogue.Of[readyOrder]("order.ready", catalogue.Type{Topic: "orders", Aggregate: "order", ExtraFields: catalogue.Refuse}))
	require.NoError(t, err)
	now := time.Now()
	for name, value := range map[string]readyOrder{
		"zero but for the time": {At: now},
		"full": {
			base: base{"42"}, Extra: &Extra{"red"}, Named: named{1}, Door: -7, Count: 3, Price: 1.5, Ready: true, At: now, Until: &now, Items: []item{{"a"}},
			Tags: map[string]int8{"x": 1}, From: netip.MustParseAddr("::1"), Raw: json.RawMessage(`{"a":1}`), Blob: []byte("x"), Any: 1, Dash: "d", Untagged: map[string][]any{"a": nil},
		},
	} {
		data, err := json.Marshal(value)
		require.NoError(t, err)
		_, err = c.Check("", "order.ready", data)
		require.NoError(t, err, "%s: %s", name, data)
	}
	full, err := json.Marshal(readyOrder{At: now})
	require.NoError(t, err)
	for change, problem := range map[string]string{
		`{"door": "7"}`:               "data.door",
		`{"door": null}`:              "data.door",
		`{"items": [{}]}`:             "data.items[0].sku is required",
		`{"at": "0001-01-01"}`:        "data.at",
		`{"pair": [1]}`:               "data.pair",
		`{"Secret": "shown"}`:         "data.Secret is not a field",
		`{"named": {"Inner": "one"}}`: "data.named.Inner",
	} {
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(full, &members))
		require.NoError(t, json.Unmarshal([]byte(change), &members))
		data, err := json.Marshal(members)
		require.NoError(t, err)
		_, err = c.Check("", "order.ready", data)
		require.ErrorContains(t, err, problem, change)
	}
	_, err = c.Check("", "order.ready", json.RawMessage(`{}`))
	require.ErrorContains(t, err, "data.at is required")
}

type tree struct{ Children []tree }

func TestOfRefusesWhatJSONCannotSay(t *testing.T) {
	t.Parallel()
	_, err := catalogue.New("x", catalogue.Of[struct{ C chan int }]("a", catalogue.Type{Topic: "t", Aggregate: "a"}), catalogue.Of[tree]("b", catalogue.Type{Topic: "t", Aggregate: "a"}))
	require.ErrorContains(t, err, "type a: no schema of struct { C chan int }: C: JSON has no chan")
	require.ErrorContains(t, err, "type b: no schema of catalogue_test.tree: Children: catalogue_test.tree contains itself")
}

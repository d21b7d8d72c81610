package packfinderz

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// samples holds one complete payload per event type and the struct it must become.
func samples() map[string]struct {
	json string
	want any
} {
	a := uuid.MustParse("018f3f6e-0000-7000-8000-00000000000a")
	b := uuid.MustParse("018f3f6e-0000-7000-8000-00000000000b")
	c := uuid.MustParse("018f3f6e-0000-7000-8000-00000000000c")
	at := time.Date(2026, 3, 4, 5, 6, 7, 800_000_000, time.UTC)
	n := func(v int64) *int64 { return &v }
	ad := AdChanged{AdID: a, StoreID: b, At: at, Changes: json.RawMessage(`{"title":["old","new"]}`)}
	adJSON := `{"adId":"A","storeId":"B","at":"T","changes":{"title":["old","new"]}}`

	type sample = struct {
		json string
		want any
	}
	all := map[string]sample{
		TypeOrderCreated: {
			`{"checkoutGroupId":"A","vendorOrderIds":["B","C"]}`,
			OrderCreated{CheckoutGroupID: a, VendorOrderIDs: []uuid.UUID{b, c}},
		},
		TypeOrderStateChanged: {
			`{"orderId":"A","checkoutGroupId":"B","from":"created","to":"accepted","reason":"stock"}`,
			OrderStateChanged{OrderID: a, CheckoutGroupID: b, From: "created", To: "accepted", Reason: "stock"},
		},
		TypeLineItemStateChanged: {
			`{"orderId":"A","lineItemId":"B","from":"pending","to":"fulfilled"}`,
			LineItemStateChanged{OrderID: a, LineItemID: b, From: "pending", To: "fulfilled"},
		},
		TypeLicenseStatusChanged: {
			`{"licenseId":"A","storeId":"B","status":"rejected","reason":"illegible"}`,
			LicenseStatusChanged{LicenseID: a, StoreID: b, Status: LicenseRejected, Reason: "illegible"},
		},
		TypeMediaUploaded: {
			`{"mediaId":"A","storeId":"B","kind":"photo","sizeBytes":0}`,
			MediaUploaded{MediaID: a, StoreID: b, Kind: "photo", SizeBytes: n(0)},
		},
		TypePaymentSettled: {
			`{"orderId":"A","paymentIntentId":"pi_3","amountCents":1999,"settledAt":"T"}`,
			PaymentSettled{OrderID: a, PaymentIntentID: "pi_3", AmountCents: 1999, SettledAt: at},
		},
		TypeCashCollected: {
			`{"orderId":"A","buyerStoreId":"B","vendorStoreId":"C","amountCents":0,"cashCollectedAt":"T"}`,
			CashCollected{OrderID: a, BuyerStoreID: b, VendorStoreID: c, CashCollectedAt: at},
		},
		TypeVendorPayoutRecorded: {
			`{"orderId":"A","vendorStoreId":"B","amountCents":-5,"paidAt":"T"}`,
			VendorPayoutRecorded{OrderID: a, VendorStoreID: b, AmountCents: -5, PaidAt: at},
		},
		TypeNotificationRequested: {
			`{"orderId":"A","recipientStoreId":"B","type":"order_ready"}`,
			NotificationRequested{OrderID: a, RecipientStoreID: b, Type: "order_ready"},
		},
		TypeOrderExpired: {
			`{"orderId":"A","checkoutGroupId":"B","expiredAt":"T","ttlDays":3}`,
			OrderExpired{OrderID: a, CheckoutGroupID: b, ExpiredAt: at, TTLDays: n(3)},
		},
		TypeOrderCanceled: {
			`{"orderId":"A","checkoutGroupId":"B","canceledAt":"T","reason":"buyer"}`,
			OrderCanceled{OrderID: a, CheckoutGroupID: b, CanceledAt: at, Reason: "buyer"},
		},
		TypeReservationReleased: {
			`{"orderId":"A","lineItemId":"B","quantity":2}`,
			ReservationReleased{OrderID: a, LineItemID: b, Quantity: n(2)},
		},
		TypeAdCreated: {adJSON, ad}, TypeAdUpdated: {adJSON, ad}, TypeAdPaused: {adJSON, ad},
		TypeAdActivated: {adJSON, ad}, TypeAdExpired: {adJSON, ad},
		TypeAdDailyRollupReady: {
			`{"adId":"A","date":"2026-03-04","impressions":10,"clicks":2,"spendCents":350}`,
			AdDailyRollupReady{AdID: a, Date: "2026-03-04", Impressions: 10, Clicks: 2, SpendCents: 350},
		},
	}
	spell := strings.NewReplacer(`"A"`, `"`+a.String()+`"`, `"B"`, `"`+b.String()+`"`,
		`"C"`, `"`+c.String()+`"`, `"T"`, `"`+at.Format(time.RFC3339Nano)+`"`)
	for name, s := range all {
		all[name] = sample{spell.Replace(s.json), s.want}
	}
	return all
}

// The struct and the entry describe the same payload: a sample with every field is
// valid, is read into the struct and written from it again.
func TestEveryPayloadIsItsStruct(t *testing.T) {
	t.Parallel()
	all := samples()
	require.Len(t, all, len(types), "one sample per event type")
	for eventType, sample := range all {
		t.Run(eventType, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, Catalogue{}.Validate(eventType, json.RawMessage(sample.json)))
			back, err := json.Marshal(read(t, sample.json, sample.want))
			require.NoError(t, err)
			require.JSONEq(t, sample.json, string(back))
			require.Equal(t, sample.want, read(t, sample.json, sample.want))
		})
	}
}

// read decodes a payload into a struct of the same type as like.
func read(t *testing.T, data string, like any) any {
	t.Helper()
	into := reflect.New(reflect.TypeOf(like))
	dec := json.NewDecoder(strings.NewReader(data))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(into.Interface()))
	return into.Elem().Interface()
}

func TestEveryFieldIsHeldToItsContract(t *testing.T) {
	t.Parallel()
	r := Catalogue{}
	for _, e := range r.Types() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			var whole map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(samples()[e.Name].json), &whole))
			require.Len(t, e.Fields, len(whole), "the sample is complete")

			for _, f := range e.Fields {
				without := edited(t, whole, func(m map[string]json.RawMessage) { delete(m, f.Name) })
				null := edited(t, whole, func(m map[string]json.RawMessage) { m[f.Name] = json.RawMessage("null") })
				if f.Required {
					requireProblem(t, r.Validate(e.Name, without), "data."+f.Name, "is required")
					requireProblem(t, r.Validate(e.Name, null), "data."+f.Name, "is required")
				} else {
					require.NoError(t, r.Validate(e.Name, without))
					require.NoError(t, r.Validate(e.Name, null))
				}

				wrongCase := edited(t, whole, func(m map[string]json.RawMessage) {
					m[strings.ToUpper(f.Name)] = m[f.Name]
					delete(m, f.Name)
				})
				requireProblem(t, r.Validate(e.Name, wrongCase), "data."+strings.ToUpper(f.Name), "is not a field of this payload")

				wrongType := edited(t, whole, func(m map[string]json.RawMessage) { m[f.Name] = json.RawMessage("true") })
				requireProblem(t, r.Validate(e.Name, wrongType), "data."+f.Name, "not a boolean")

				if f.Required && whole[f.Name][0] == '"' {
					empty := edited(t, whole, func(m map[string]json.RawMessage) { m[f.Name] = json.RawMessage(`""`) })
					requireProblem(t, r.Validate(e.Name, empty), "data."+f.Name, "must")
				}
			}
			unknown := edited(t, whole, func(m map[string]json.RawMessage) { m["surprise"] = json.RawMessage("1") })
			requireProblem(t, r.Validate(e.Name, unknown), "data.surprise", "is not a field of this payload")
		})
	}
}

func TestTheEmptyObjectIsAPayloadAndNullIsNot(t *testing.T) {
	t.Parallel()
	r := Catalogue{}
	for eventType := range samples() {
		for _, empty := range []string{`{}`, " {\n} "} {
			require.NoError(t, r.Validate(eventType, json.RawMessage(empty)))
		}
		requireProblem(t, r.Validate(eventType, nil), "data", "is required")
		requireProblem(t, r.Validate(eventType, json.RawMessage(" ")), "data", "is required")
		requireProblem(t, r.Validate(eventType, json.RawMessage("null")), "data", "must not be null")
		requireProblem(t, r.Validate(eventType, json.RawMessage("[]")), "data", "must be an object, not an array")
		requireProblem(t, r.Validate(eventType, json.RawMessage(`"x"`)), "data", "must be an object, not a string")
		requireProblem(t, r.Validate(eventType, json.RawMessage(`{`)), "data", "is not valid JSON")
	}
}

func TestValuesAreChecked(t *testing.T) {
	t.Parallel()
	id := `"018f3f6e-0000-7000-8000-00000000000a"`
	for _, c := range []struct{ name, eventType, data, field, problem string }{
		{"status outside the enum", TypeLicenseStatusChanged, `{"licenseId":` + id + `,"storeId":` + id + `,"status":"Verified"}`,
			"data.status", "must be one of pending, verified, rejected"},
		{"id in braces", TypeReservationReleased, `{"orderId":"{018f3f6e-0000-7000-8000-00000000000a}"}`, "data.orderId", "must be a uuid"},
		{"id without hyphens", TypeReservationReleased, `{"orderId":"018f3f6e00007000800000000000000a"}`, "data.orderId", "must be a uuid"},
		{"nil id", TypeReservationReleased, `{"orderId":"00000000-0000-0000-0000-000000000000"}`, "data.orderId", "must not be the nil uuid"},
		{"bad id in the array", TypeOrderCreated, `{"checkoutGroupId":` + id + `,"vendorOrderIds":[` + id + `,"x"]}`, "data.vendorOrderIds[1]", "must be a uuid"},
		{"null in the array", TypeOrderCreated, `{"checkoutGroupId":` + id + `,"vendorOrderIds":[null]}`, "data.vendorOrderIds[0]", "must be a string, not null"},
		{"fraction", TypeReservationReleased, `{"orderId":` + id + `,"quantity":1.5}`, "data.quantity", "must be an integer"},
		{"integer beyond 64 bits", TypeReservationReleased, `{"orderId":` + id + `,"quantity":9223372036854775808}`, "data.quantity", "must be an integer of at most 64 bits"},
		{"quoted integer", TypeReservationReleased, `{"orderId":` + id + `,"quantity":"1"}`, "data.quantity", "must be an integer, not a string"},
		{"time without a zone", TypeAdPaused, `{"adId":` + id + `,"storeId":` + id + `,"at":"2026-03-04T05:06:07"}`, "data.at", "must be an RFC 3339 timestamp"},
		{"time as only Go reads it", TypeAdPaused, `{"adId":` + id + `,"storeId":` + id + `,"at":"2026-01-01T1:00:00,5Z"}`, "data.at", "must be an RFC 3339 timestamp"},
		{"zero time", TypeAdPaused, `{"adId":` + id + `,"storeId":` + id + `,"at":"0001-01-01T00:00:00Z"}`, "data.at", "must not be the zero time"},
		{"a day that does not exist", TypeAdDailyRollupReady, `{"adId":` + id + `,"date":"2026-02-30","impressions":0,"clicks":0,"spendCents":0}`, "data.date", "must be a date as YYYY-MM-DD"},
		{"changes as text", TypeAdPaused, `{"adId":` + id + `,"storeId":` + id + `,"at":"2026-03-04T05:06:07Z","changes":"x"}`, "data.changes", "must be an object or an array, not a string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			requireProblem(t, Catalogue{}.Validate(c.eventType, json.RawMessage(c.data)), c.field, c.problem)
		})
	}
}

func TestErrorsNameFieldsAndNeverShowValues(t *testing.T) {
	t.Parallel()
	secret := "hunter2-is-not-for-logs"
	err := Catalogue{}.Validate(TypeLicenseStatusChanged, json.RawMessage(
		`{"licenseId":"`+secret+`","storeId":["`+secret+`"],"status":"`+secret+`","reason":{"a":"`+secret+`"}}`))
	require.EqualError(t, err, "invalid payload of license_status_changed: data.licenseId must be a uuid; "+
		"data.storeId must be a string, not an array; data.status must be one of pending, verified, rejected; "+
		"data.reason must be a string, not an object")

	many := `{"checkoutGroupId":"x","vendorOrderIds":[` + strings.Repeat(`1,`, 9_999) + `1]}`
	err = Catalogue{}.Validate(TypeOrderCreated, json.RawMessage(many))
	require.Less(t, len(err.Error()), 400)
	require.Contains(t, err.Error(), "and 9996 more")

	err = Catalogue{}.Validate(TypeOrderCreated, json.RawMessage(`{"`+strings.Repeat("é", 5_000)+`":1}`))
	require.Less(t, len(err.Error()), 400)
}

func TestUnknownEventTypes(t *testing.T) {
	t.Parallel()
	r := Catalogue{}
	for _, eventType := range []string{"", "order_shipped", "ORDER_CREATED", "order_created "} {
		_, _, ok := r.Resolve(eventType)
		require.False(t, ok)
		require.EqualError(t, r.Validate(eventType, json.RawMessage(`{}`)), fmt.Sprintf("unknown event type %q", eventType))
	}
}

func edited(t *testing.T, whole map[string]json.RawMessage, edit func(map[string]json.RawMessage)) json.RawMessage {
	t.Helper()
	m := make(map[string]json.RawMessage, len(whole))
	for k, v := range whole {
		m[k] = v
	}
	edit(m)
	data, err := json.Marshal(m)
	require.NoError(t, err)
	return data
}

func requireProblem(t *testing.T, err error, field, problem string) {
	t.Helper()
	var invalid *wire.PayloadError
	require.ErrorAs(t, err, &invalid)
	for _, p := range invalid.Problems {
		if p.Field == field && strings.Contains(p.Problem, problem) {
			return
		}
	}
	t.Fatalf("no problem %q of field %q in: %v", problem, field, err)
}

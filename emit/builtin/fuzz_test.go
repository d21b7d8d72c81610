package builtin

import (
	"encoding/json"
	"maps"
	"testing"
	"unicode/utf8"
)

// FuzzValidate holds that no payload panics the decoder, that the verdict is the
// same each time, and that a payload which was accepted is accepted again after it
// went through its struct: otherwise an event could pass emit and die at dispatch.
func FuzzValidate(f *testing.F) {
	r := New()
	for eventType, sample := range samples() {
		f.Add(eventType, sample.json)
	}
	f.Add(TypeOrderCreated, `{"vendorOrderIds":[{}],"checkoutGroupId":7}`)
	f.Add(TypeReservationReleased, `{"quantity":1,"quantity":2,"\u006frderId":null}`)
	f.Add(TypeAdPaused, `{"at":"2026-02-30T00:00:00Z","changes":[[]]}`)
	f.Fuzz(func(t *testing.T, eventType, data string) {
		p, err := r.Decode(eventType, json.RawMessage(data))
		if _, again := r.Decode(eventType, json.RawMessage(data)); (again == nil) != (err == nil) {
			t.Fatalf("two verdicts: %v and %v", err, again)
		}
		if err != nil {
			return
		}
		members, _ := object(json.RawMessage(data))
		var whole map[string]json.RawMessage
		if err := json.Unmarshal([]byte(data), &whole); err != nil {
			t.Fatalf("accepted what is no object: %v", err)
		}
		last := map[string]json.RawMessage{}
		for _, m := range members {
			last[m.name] = m.value
		}
		// The hand-written splitter agrees with encoding/json.
		if !maps.EqualFunc(whole, last, func(a, b json.RawMessage) bool { return string(a) == string(b) }) && utf8.ValidString(data) {
			t.Fatalf("split %s into %q", data, last)
		}
		if len(members) == 0 {
			return
		}
		back, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("marshal an accepted payload: %v", err)
		}
		if err := r.Validate(eventType, back); err != nil {
			t.Fatalf("accepted %s, refused %s: %v", data, back, err)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	r := New()
	data := json.RawMessage(samples()[TypeLicenseStatusChanged].json)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Validate(TypeLicenseStatusChanged, data); err != nil {
			b.Fatal(err)
		}
	}
}

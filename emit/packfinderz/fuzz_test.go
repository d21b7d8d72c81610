package packfinderz

import (
	"encoding/json"
	"testing"
)

// FuzzValidate holds that no payload panics the checker, that the verdict is the
// same each time, and that a payload which was accepted is accepted again after it
// went through its struct: otherwise an event could pass emit and die at dispatch.
func FuzzValidate(f *testing.F) {
	r := Catalogue{}
	all := samples()
	for eventType, sample := range all {
		f.Add(eventType, sample.json)
	}
	f.Add(TypeOrderCreated, `{"vendorOrderIds":[{}],"checkoutGroupId":7}`)
	f.Add(TypeReservationReleased, `{"quantity":1,"quantity":2,"\u006frderId":null}`)
	f.Add(TypeAdPaused, `{"at":"2026-02-30T00:00:00Z","changes":[[]]}`)
	f.Fuzz(func(t *testing.T, eventType, data string) {
		err := r.Validate(eventType, json.RawMessage(data))
		if again := r.Validate(eventType, json.RawMessage(data)); (again == nil) != (err == nil) {
			t.Fatalf("two verdicts: %v and %v", err, again)
		}
		if err != nil {
			return
		}
		var whole map[string]json.RawMessage
		if err := json.Unmarshal([]byte(data), &whole); err != nil {
			t.Fatalf("accepted what is no object: %v", err)
		}
		if len(whole) == 0 {
			return
		}
		back, err := json.Marshal(read(t, data, all[eventType].want))
		if err != nil {
			t.Fatalf("marshal an accepted payload: %v", err)
		}
		if err := r.Validate(eventType, back); err != nil {
			t.Fatalf("accepted %s, refused %s: %v", data, back, err)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	r := Catalogue{}
	data := json.RawMessage(samples()[TypeLicenseStatusChanged].json)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Validate(TypeLicenseStatusChanged, data); err != nil {
			b.Fatal(err)
		}
	}
}

package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/builtin"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// handledType is the one the consumers act on.
const handledType = builtin.TypeLicenseStatusChanged

// source makes the events of one producer. It draws everything from its seed.
type source struct{ random *rand.Rand }

// Read makes a source of random bytes for uuid.
func (s *source) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.random.Uint32())
	}
	return len(p), nil
}

func (s *source) id() uuid.UUID { return uuid.Must(uuid.NewV7FromReader(s)) }

// draft is an event on its way into a transaction.
type draft struct {
	event  emit.Event
	expect history.Expectation
	// spoiled bodies go around Emit, as a careless INSERT would.
	spoiled json.RawMessage
	topic   string
}

// text is a word that has been through everything encoders get wrong.
func (s *source) text() string {
	words := []string{"plain", "Größe", "日本", `"quoted"`, `back\slash`, "<b>&", "\u2028", "tab\there",
		"🎈", "1e400"}
	return strings.Repeat(words[s.random.IntN(len(words))]+" ", 1+s.random.IntN(4))
}

// next makes an event. One in twenty-five is poison of some kind.
func (s *source) next() draft {
	d := draft{expect: history.Deliver, event: emit.Event{ID: s.id(), AggregateID: s.id().String(),
		Headers: map[string]string{"traceparent": s.id().String()}}}
	at := time.UnixMilli(1_700_000_000_000 + s.random.Int64N(1e10)).UTC()
	switch s.random.IntN(10) {
	case 0, 1, 2, 3:
		d.topic, d.event.Type = "domain", handledType
		status := []string{builtin.LicensePending, builtin.LicenseVerified,
			builtin.LicenseRejected}[s.random.IntN(3)]
		d.event.Data = builtin.LicenseStatusChanged{LicenseID: s.id(), StoreID: s.id(), Status: status,
			Reason: s.text()}
	case 4, 5:
		d.topic, d.event.Type = "domain", builtin.TypeOrderStateChanged
		d.event.Data = builtin.OrderStateChanged{OrderID: s.id(), From: s.text(), To: s.text()}
	case 6:
		d.topic, d.event.Type = "billing", builtin.TypePaymentSettled
		d.event.Data = builtin.PaymentSettled{OrderID: s.id(), PaymentIntentID: s.text(),
			AmountCents: s.random.Int64(), SettledAt: at}
	case 7:
		d.topic, d.event.Type = "notifications", builtin.TypeNotificationRequested
		d.event.Data = builtin.NotificationRequested{RecipientStoreID: s.id(), Type: s.text()}
	default:
		d.topic, d.event.Type = "analytics", builtin.TypeAdCreated
		d.event.Data = builtin.AdChanged{AdID: s.id(), StoreID: s.id(), At: at}
	}
	switch s.random.IntN(100) {
	case 0:
		d.event.Headers[rig.HeaderReject], d.expect = "1", history.Die
	case 1:
		d.event.Headers[rig.HeaderHeal] = rig.HealAtTheEnd
	case 2:
		d.spoiled, d.expect = json.RawMessage(`{"surprise": true}`), history.Die
	case 3:
		// One attribute longer than any broker takes: the cheap way to be too large.
		d.spoiled, d.expect = nil, history.Die
		d.event.Headers["long"] = strings.Repeat("x", 66_000)
	}
	return d
}

// keyedPoison is how rare poison with an ordering key is among all poison: its key stands still
// until an operator comes.
const keyedPoison = 6

// orderBy puts the event behind those of the aggregate that its producer has locked. What the
// broker refuses for a while it takes before the end of the run, so that a replay can succeed
// meanwhile.
func (s *source) orderBy(d *draft, key string) {
	heals := d.event.Headers[rig.HeaderHeal] != ""
	if (heals || d.expect == history.Die) && s.random.IntN(keyedPoison) > 0 {
		return
	}
	if heals {
		d.event.Headers[rig.HeaderHeal] = (time.Duration(1+s.random.IntN(5)) * time.Second).String()
	}
	d.event.OrderingKey = key
}

// key names the ordering key of an aggregate; most have none.
func key(aggregate int, locked bool) string {
	switch {
	case aggregate >= orderedAggregates:
		return ""
	case locked:
		return fmt.Sprintf("aggregate/%d", aggregate)
	default:
		return fmt.Sprintf("%s%d", looseKeys, aggregate)
	}
}

// data is what the producer means to say, as the ledger keeps it.
func (d draft) data() string {
	if d.spoiled != nil {
		return string(d.spoiled)
	}
	return string(rig.Must(json.Marshal(d.event.Data))) // our own structs encode
}

// byHand reports whether the event breaks a rule of Emit and has to go around it.
func (d draft) byHand() bool { return d.spoiled != nil || d.event.Headers["long"] != "" }

func (d draft) intent() history.Intent {
	return history.Intent{EventID: d.event.ID.String(), Type: d.event.Type, Topic: d.topic,
		Expect: d.expect}
}

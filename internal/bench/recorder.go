package bench

import (
	"context"
	"hash/maphash"
	"path"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/devstack"
)

// forgetEvery is after how many messages the fake is told to forget what it
// holds: it would keep a million in memory.
const forgetEvery = 20_000

// recorder keeps a fingerprint of every message the broker received.
type recorder struct {
	seed maphash.Seed
	keep bool // the messages will be received, from memory

	mu       sync.Mutex
	kept     []broker.Delivery
	arrivals map[uuid.UUID]arrival
	strays   int64 // without an event id
	total    int64
	first    time.Time
	last     time.Time
}

type arrival struct {
	print uint64
	count uint32
	mixed bool  // came again with another fingerprint
	order int64 // of its first arrival
}

func newRecorder(expect int) *recorder {
	return &recorder{seed: maphash.MakeSeed(), arrivals: make(map[uuid.UUID]arrival, expect)}
}

// fingerprint covers the body and all attributes.
func (r *recorder) fingerprint(data []byte, attrs map[string]string) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	_, _ = h.Write(data) // never fails
	for _, name := range []string{wire.AttrEventID, wire.AttrEventType, wire.AttrAggregateType, wire.AttrAggregateID, wire.AttrCreatedAt, wire.AttrEventSeq} {
		_ = h.WriteByte(0)
		_, _ = h.WriteString(attrs[name])
	}
	_ = h.WriteByte(byte(len(attrs)))
	return h.Sum64()
}

// record notes one request's messages and says how many have come so far.
func (r *recorder) record(n int, message func(i int) (data []byte, attrs map[string]string)) (total int64) {
	type mark struct {
		id    uuid.UUID
		print uint64
	}
	marks := make([]mark, 0, n)
	strays := int64(0)
	for i := range n {
		data, attrs := message(i)
		id, err := uuid.Parse(attrs[wire.AttrEventID])
		if err != nil {
			strays++
			continue
		}
		marks = append(marks, mark{id, r.fingerprint(data, attrs)})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strays += strays
	for i, m := range marks {
		a := r.arrivals[m.id]
		if a.count == 0 {
			a.order = r.total + int64(i)
		}
		a.mixed = a.mixed || (a.count > 0 && a.print != m.print)
		a.print = m.print
		a.count++
		r.arrivals[m.id] = a
	}
	r.total += int64(n)
	r.last = time.Now()
	if r.first.IsZero() {
		r.first = r.last
	}
	return r.total
}

// span is the time between the first and the last arrival.
func (r *recorder) span() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Sub(r.first)
}

// watch records everything the fake receives on a topic. What is sent to one it does
// not have never arrives.
func (r *recorder) watch(fake *devstack.PubSub, topic string) {
	fake.OnPublish(func(_ context.Context, call devstack.PublishCall) devstack.PublishFault {
		if path.Base(call.Topic) != topic {
			return devstack.PublishFault{}
		}
		before := r.record(len(call.Messages), func(i int) ([]byte, map[string]string) {
			return call.Messages[i].GetData(), call.Messages[i].GetAttributes()
		}) - int64(len(call.Messages))
		if r.keep {
			r.keepAll(call)
		}
		if before/forgetEvery != (before+int64(len(call.Messages)))/forgetEvery {
			fake.Forget()
		}
		return devstack.PublishFault{}
	})
}

func (r *recorder) keepAll(call devstack.PublishCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range call.Messages {
		r.kept = append(r.kept, broker.Delivery{Message: acknowledged{}, Attributes: m.GetAttributes(), Body: m.GetData()})
	}
}

// Record notes messages that reach another publisher than the fake.
func (r *Trial) Record(msgs []dispatch.Message) {
	r.recorder.record(len(msgs), func(i int) ([]byte, map[string]string) { return msgs[i].Data, msgs[i].Attributes })
}

// Verify compares the broker with the table.
func (r *Trial) Verify(ctx context.Context) (Delivery, error) { return r.recorder.verify(ctx, r.DB) }

// verifySQL reads the events that must have arrived, with what they consist of.
const verifySQL = `
SELECT id::text, event_type::text, aggregate_type::text, aggregate_id::text, payload_json::text, created_at, published_at IS NOT NULL,
       coalesce(ordering_key, ''), CASE WHEN ordering_key IS NULL THEN 0 ELSE seq END
  FROM outbox_events
 WHERE namespace = $1
 ORDER BY seq`

// verify compares the broker with the table.
func (r *recorder) verify(ctx context.Context, db *Database) (Delivery, error) {
	rows, err := db.Pool.Query(ctx, verifySQL, Measured)
	if err != nil {
		return Delivery{}, err
	}
	defer rows.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := Delivery{Unknown: r.strays}
	known, reached := 0, map[string]int64{}
	for rows.Next() {
		var id, eventType, aggregateType, aggregateID, key string
		var payload []byte
		var createdAt time.Time
		var published bool
		var seq int64
		if err := rows.Scan(&id, &eventType, &aggregateType, &aggregateID, &payload, &createdAt, &published, &key, &seq); err != nil {
			return Delivery{}, err
		}
		d.Expected++
		a, ok := r.arrivals[uuid.MustParse(id)]
		if !ok {
			d.Missing++
			continue
		}
		known++
		d.Arrived++
		d.Duplicates += int64(a.count) - 1
		if !published {
			d.Unsettled++
		}
		if key != "" && a.order < reached[key] {
			d.Disordered++
		} else if key != "" {
			reached[key] = a.order
		}
		want := r.fingerprint(payload, wire.Attributes(wire.Row{
			ID: id, EventType: eventType, AggregateType: aggregateType, AggregateID: aggregateID, Namespace: Measured, CreatedAt: createdAt, Seq: seq,
		}))
		if a.mixed || a.print != want {
			d.Changed++
		}
	}
	d.Unknown += int64(len(r.arrivals) - known)
	return d, rows.Err()
}

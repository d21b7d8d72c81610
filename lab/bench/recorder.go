package bench

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// recorder keeps a fingerprint of every message the broker received.
type recorder struct {
	seed maphash.Seed

	mu       sync.Mutex
	arrivals map[uuid.UUID]arrival
	strays   int64 // without an event id
	total    int
	first    time.Time // since the mark
	last     time.Time
}

type arrival struct {
	print uint64
	count uint32
	mixed bool // came again with another fingerprint
	order int  // of its first arrival
	at    time.Time
}

// message is one that arrived.
type message struct {
	body  []byte
	attrs map[string]string
}

func newRecorder(expect int) *recorder {
	return &recorder{seed: maphash.MakeSeed(), arrivals: make(map[uuid.UUID]arrival, expect)}
}

// fingerprint covers the body and all attributes.
func (r *recorder) fingerprint(m message) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	_, _ = h.Write(m.body) // never fails
	for _, name := range []string{wire.AttrEventID, wire.AttrEventType, wire.AttrAggregateType, wire.AttrAggregateID, wire.AttrCreatedAt, wire.AttrEventSeq} {
		_ = h.WriteByte(0)
		_, _ = h.WriteString(m.attrs[name])
	}
	_ = h.WriteByte(byte(len(m.attrs)))
	return h.Sum64()
}

// record notes the messages of one request.
func (r *recorder) record(messages ...message) {
	prints := make([]uint64, len(messages))
	for i, m := range messages {
		prints[i] = r.fingerprint(m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if r.first.IsZero() {
		r.first = r.last
	}
	for i, m := range messages {
		r.total++
		id, err := uuid.Parse(m.attrs[wire.AttrEventID])
		if err != nil {
			r.strays++
			continue
		}
		a := r.arrivals[id]
		if a.count == 0 {
			a.order, a.at = r.total, r.last
		}
		a.mixed = a.mixed || (a.count > 0 && a.print != prints[i])
		a.print = prints[i]
		a.count++
		r.arrivals[id] = a
	}
}

// count is how many messages have come.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// mark begins another span.
func (r *recorder) mark() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = time.Time{}
}

// span is the time between the first and the last arrival since the mark.
func (r *recorder) span() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Sub(r.first)
}

// latencies are the times from a commit to the broker's answer. The broker may answer before the
// reply of COMMIT is here; that counts as none.
func (r *recorder) latencies(committed map[uuid.UUID]time.Time, in func(at time.Time) bool) Percentiles {
	r.mu.Lock()
	defer r.mu.Unlock()
	var took []time.Duration
	for id, at := range committed {
		if a, ok := r.arrivals[id]; ok && in(at) {
			took = append(took, max(a.at.Sub(at), 0))
		}
	}
	return percentilesOf(took)
}

// measured are the events that must arrive; those in the way have another aggregate.
const measured = `aggregate_id::text NOT LIKE 'head/%'`

// verifySQL reads them, with what they consist of.
const verifySQL = `
SELECT id, event_type::text, aggregate_type::text, aggregate_id::text, namespace, payload_json::text, created_at, published_at IS NOT NULL,
       coalesce(ordering_key, ''), CASE WHEN ordering_key IS NULL THEN 0 ELSE seq END
  FROM outbox_events
 WHERE ` + measured + `
 ORDER BY seq`

// verify compares the broker with the table.
func (r *recorder) verify(ctx context.Context, db *pgxpool.Pool) Delivery {
	rows := rig.Must(db.Query(ctx, verifySQL))
	defer rows.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	d := Delivery{Unknown: r.strays + int64(len(r.arrivals))}
	reached := map[string]int{}
	for rows.Next() {
		var id uuid.UUID
		var row wire.Row
		var body []byte
		var published bool
		var key string
		rig.Check(rows.Scan(&id, &row.EventType, &row.AggregateType, &row.AggregateID, &row.Namespace, &body, &row.CreatedAt, &published, &key, &row.Seq))
		row.ID = id.String()
		d.Expected++
		a, arrived := r.arrivals[id]
		if !arrived {
			d.Missing++
			continue
		}
		d.Arrived++
		d.Unknown--
		d.Duplicates += int64(a.count) - 1
		if !published {
			d.Unsettled++
		}
		if key != "" && a.order < reached[key] {
			d.Disordered++
		} else if key != "" {
			reached[key] = a.order
		}
		if a.mixed || a.print != r.fingerprint(message{body, wire.Attributes(row)}) {
			d.Changed++
		}
	}
	rig.Check(rows.Err())
	return d
}

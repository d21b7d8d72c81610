package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	howPlain     = "plain"
	howLate      = "late"
	howRollback  = "rollback"
	howSavepoint = "savepoint"
	howKilled    = "killed"
	howCLI       = "cli"
)

// quota is how many events the producers owe together by now. What a fault held up, or rolled back,
// is made up for.
type quota struct {
	since time.Time
	rate  int
	done  atomic.Int64
}

// wait returns when the next transaction is due, and reports whether ctx let it.
func (q *quota) wait(ctx context.Context) bool {
	for float64(q.done.Load()) >= time.Since(q.since).Seconds()*float64(q.rate) {
		if !rig.Pause(ctx, 5*time.Millisecond) {
			return false
		}
	}
	return ctx.Err() == nil
}

// producer writes business rows with events beside them, until told to stop.
type producer struct {
	name    string
	url     string // through the cutter
	quota   *quota
	rec     *history.Recorder
	source  *source
	catalog *registry.Registry
	count   int
}

// run works until ctx ends. The last transaction is brought to its end: what became of it must be
// known.
func (p *producer) run(ctx context.Context) {
	var conn *pgx.Conn
	for ctx.Err() == nil {
		work, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		if conn == nil || conn.IsClosed() {
			conn, _ = pgx.Connect(work, p.url) // the database may be away
		}
		if conn == nil {
			rig.Pause(ctx, 100*time.Millisecond)
		} else {
			p.transaction(ctx, work, conn)
		}
		cancel()
	}
	if conn != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

func (p *producer) how() string {
	switch n := p.source.random.IntN(100); {
	case n < 20:
		return howRollback
	case n < 28:
		return howSavepoint
	case n < 33:
		return howLate
	case n < 37:
		return howKilled
	default:
		return howPlain
	}
}

func (p *producer) transaction(ctx, work context.Context, conn *pgx.Conn) {
	p.count++
	t := history.Transaction{ID: fmt.Sprintf("%s/%d", p.name, p.count), How: p.how()}
	drafts := make([]draft, 1+p.source.random.IntN(3))
	for i := range drafts {
		drafts[i] = p.source.next()
		t.Events = append(t.Events, drafts[i].intent())
	}
	if t.How == howPlain || t.How == howLate || t.How == howSavepoint {
		if !p.quota.wait(ctx) {
			return // told to stop
		}
	}
	t.At = time.Now()
	outcome, retracted := p.perform(ctx, work, conn, &t, drafts)
	t.Outcome, t.Ended = outcome, time.Now()
	if outcome == history.Committed {
		p.quota.done.Add(int64(len(drafts)))
	}
	if retracted != nil {
		t.Events = append(t.Events, *retracted)
	}
	p.rec.Add(t)
}

func (p *producer) perform(ctx, work context.Context, conn *pgx.Conn, t *history.Transaction,
	drafts []draft) (history.Outcome, *history.Intent) {
	tx, err := conn.Begin(work)
	if err != nil {
		return history.RolledBack, nil
	}
	defer func() { _ = tx.Rollback(work) }() // after a commit, or on a dead connection, this does nothing
	aggregate := p.source.random.IntN(aggregates)
	if p.source.random.IntN(2) == 0 {
		aggregate = p.source.random.IntN(orderedAggregates)
	}
	locks := p.source.random.IntN(20) > 0
	if locks {
		if _, err := tx.Exec(work, `UPDATE torture_aggregates SET version = version + 1 WHERE id = $1`,
			aggregate); err != nil {
			return history.RolledBack, nil
		}
	}
	for _, d := range drafts {
		p.source.orderBy(&d, key(aggregate, locks))
		if err := p.write(work, tx, t.ID, d); err != nil {
			return history.RolledBack, nil
		}
	}
	var retracted *history.Intent
	if t.How == howSavepoint {
		if retracted, err = p.retract(work, tx, t.ID); err != nil {
			return history.RolledBack, retracted
		}
	}
	switch t.How {
	case howRollback:
		return history.RolledBack, nil
	case howKilled:
		_ = conn.PgConn().Conn().Close() // as if the process had died
		return history.RolledBack, nil
	case howLate:
		// Locked aggregates wait with it, as they do in life.
		rig.Pause(ctx, time.Duration(1+p.source.random.IntN(4))*time.Second)
	}
	return committed(tx.Commit(work)), retracted
}

// committed reads what a commit's error says about it. Only an answer of the server proves that it
// did not happen.
func committed(err error) history.Outcome {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return history.Committed
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return history.RolledBack
	case errors.As(err, &refused) && refused.Code != "57P01" && refused.Code != "57P02":
		return history.RolledBack
	default:
		return history.Unknown
	}
}

func (p *producer) write(ctx context.Context, tx pgx.Tx, id string, d draft) error {
	var err error
	if d.byHand() {
		err = p.insert(ctx, tx, d)
	} else {
		_, err = packfinderz.Emit(ctx, tx, d.event)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO torture_ledger (tx, event_id, data) VALUES ($1, $2, $3)`, id, d.event.ID, d.data())
	}
	return err
}

func (p *producer) retract(ctx context.Context, tx pgx.Tx, id string) (*history.Intent, error) {
	d := p.source.next()
	intent := d.intent()
	intent.Expect = history.Retract
	inner, err := tx.Begin(ctx)
	if err == nil {
		err = p.write(ctx, inner, id, d)
	}
	if err == nil {
		err = inner.Rollback(ctx)
	}
	return &intent, err
}

// insert is the plain INSERT that a service may write in any language, rules and all ignored.
func (p *producer) insert(ctx context.Context, tx pgx.Tx, d draft) error {
	aggregate, _, _ := p.catalog.Resolve(d.event.Type)
	envelope := fmt.Sprintf(`{"version": 1, "eventId": %q, "occurredAt": "2026-01-02T03:04:05Z", "data": %s}`, d.event.ID, d.data())
	_, err := tx.Exec(ctx, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, headers, ordering_key)
		VALUES ($1, $2::text::event_type_enum, $3::text::aggregate_type_enum, $4, $5::text::jsonb, $6, 'default/' || nullif($7::text, ''))`,
		d.event.ID, d.event.Type, aggregate, d.event.AggregateID, envelope, d.event.Headers, d.event.OrderingKey)
	return err
}

// handledType is the one the consumers act on.
const handledType = packfinderz.TypeLicenseStatusChanged

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
		status := []string{packfinderz.LicensePending, packfinderz.LicenseVerified,
			packfinderz.LicenseRejected}[s.random.IntN(3)]
		d.event.Data = packfinderz.LicenseStatusChanged{LicenseID: s.id(), StoreID: s.id(), Status: status,
			Reason: s.text()}
	case 4, 5:
		d.topic, d.event.Type = "domain", packfinderz.TypeOrderStateChanged
		d.event.Data = packfinderz.OrderStateChanged{OrderID: s.id(), From: s.text(), To: s.text()}
	case 6:
		d.topic, d.event.Type = "billing", packfinderz.TypePaymentSettled
		d.event.Data = packfinderz.PaymentSettled{OrderID: s.id(), PaymentIntentID: s.text(),
			AmountCents: s.random.Int64(), SettledAt: at}
	case 7:
		d.topic, d.event.Type = "notifications", packfinderz.TypeNotificationRequested
		d.event.Data = packfinderz.NotificationRequested{RecipientStoreID: s.id(), Type: s.text()}
	default:
		d.topic, d.event.Type = "analytics", packfinderz.TypeAdCreated
		d.event.Data = packfinderz.AdChanged{AdID: s.id(), StoreID: s.id(), At: at}
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

package check_test

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

const (
	lease      = 10 * time.Second
	cleanupAge = 20 * time.Second
	handled    = "order_created"
	unhandled  = "ad_paused"
	inbox      = "billing" // guarded by the inbox table
	guarded    = "mailer"  // guarded by Redis
)

// start is where the clock of every built run begins.
func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// builder writes the history of a run as the harness would have recorded it.
type builder struct {
	h     *history.History
	seq   int64
	state map[string]history.State
	at    map[string]time.Time // of the event's last change
}

func newBuilder() *builder {
	return &builder{
		state: map[string]history.State{}, at: map[string]time.Time{},
		h: &history.History{Run: history.Run{
			Seed: 7, Rate: 10, Duration: time.Minute, Lease: lease, CleanupAge: cleanupAge, MaxInFlight: 2,
			Started: start(), LastFault: start().Add(60 * time.Second), Ended: start().Add(81 * time.Second),
			MinEvents: 18, MinFaults: 3, NeedFaults: []string{"sigkill", "redis_flush"}, NeedCrashes: []string{"after_publish", "replay"},
			Consumers: []string{inbox, guarded}, InboxGuarded: []string{inbox}, HandledTypes: []string{handled},
		}},
	}
}

// transaction records a producer's transaction and, for what is committed, the ledger and the rows.
func (b *builder) transaction(id, how string, outcome history.Outcome, kept bool, events ...history.Intent) {
	at := start().Add(time.Duration(len(b.h.Transactions)) * time.Second)
	b.h.Transactions = append(b.h.Transactions, history.Transaction{
		ID: id, At: at, Ended: at.Add(5 * time.Millisecond), Outcome: outcome, How: how, Events: events,
	})
	for _, e := range events {
		if !kept || e.Expect == history.Retract {
			continue
		}
		row := history.LedgerRow{TxID: id, EventID: e.EventID, Line: e.Line, Data: data(e.EventID + e.Line)}
		b.h.Ledger = append(b.h.Ledger, row)
		eventID, headers := e.EventID, map[string]string{"trace": "t-" + id}
		if e.Line != "" {
			eventID, headers = "id-of-"+e.Line, map[string]string{"torture-line": e.Line}
		}
		b.h.Rows = append(b.h.Rows, history.Row{
			EventID: eventID, Seq: int64(len(b.h.Rows) + 1), Type: e.Type, AggregateType: "checkout_group", AggregateID: "a-1", Namespace: "default",
			Payload: `{"data": ` + data(e.EventID+e.Line) + `, "eventId": "` + eventID + `", "version": 1}`,
			Headers: headers, CreatedAt: at.Format(time.RFC3339Nano),
		})
		b.at[eventID] = at.Add(10 * time.Millisecond)
	}
}

func data(name string) string { return `{"name":"` + name + `","cents":12345678901234567890}` }

func deliver(id string) history.Intent {
	return history.Intent{EventID: id, Type: handled, Topic: "domain", Expect: history.Deliver}
}

func (b *builder) row(id string) *history.Row {
	for _, rows := range [][]history.Row{b.h.Rows, b.h.Removed} {
		for i := range rows {
			if rows[i].EventID == id {
				return &rows[i]
			}
		}
	}
	panic("no row " + id)
}

// change records one change, after a while.
func (b *builder) change(id, by string, after time.Duration, edit func(at time.Time, s *history.State)) *history.Change {
	b.seq++
	at := b.at[id].Add(after)
	b.at[id] = at
	before := b.state[id]
	now := before
	edit(at, &now)
	b.state[id] = now
	b.row(id).State = now
	b.h.Changes = append(b.h.Changes, history.Change{At: at, Seq: b.seq, TxID: b.seq, EventID: id, By: by, Before: before, After: now})
	return &b.h.Changes[len(b.h.Changes)-1]
}

const soon = 10 * time.Millisecond

func (b *builder) claim(id, by string) { b.claimAfter(id, by, soon) }

func (b *builder) claimAfter(id, by string, after time.Duration) {
	b.change(id, by, after, func(at time.Time, s *history.State) {
		if s.Lease.By != "" {
			s.Attempts++
			s.LastError = "lease of publisher " + s.Lease.By + " expired without a verdict"
		}
		s.Lease = history.Lease{By: "owner-of-" + by, Until: at.Add(lease)}
	})
}

func (b *builder) settle(id, by string, edit func(at time.Time, s *history.State)) {
	b.change(id, by, soon, func(at time.Time, s *history.State) {
		s.Lease = history.Lease{}
		edit(at, s)
	})
}

func (b *builder) fail(id, by, text string) {
	b.settle(id, by, func(at time.Time, s *history.State) {
		s.Attempts, s.LastError, s.Next = s.Attempts+1, text, at.Add(time.Second)
	})
}

func (b *builder) die(id, by string) {
	b.settle(id, by, func(at time.Time, s *history.State) { s.Dead, s.LastError = at, "invalid payload" })
	b.h.Letters = append(b.h.Letters, history.Letter{
		ID: fmt.Sprintf("letter-%d", len(b.h.Letters)+1), EventID: id, Reason: "invalid_payload", State: "open",
		FailedAt: b.at[id], Payload: b.row(id).Payload,
	})
}

func (b *builder) replay(id string) {
	b.change(id, "operator", time.Second, func(at time.Time, s *history.State) { *s = history.State{Next: at} })
	b.letter(id).State = "replayed"
	b.audit("dlq.replay", id)
}

func (b *builder) discard(id string) {
	b.letter(id).State = "discarded"
	b.audit("dlq.discard", id)
}

func (b *builder) audit(action string, ids ...string) {
	detail := map[string]any{"eventIds": ids}
	b.h.Audits = append(b.h.Audits, history.Audit{
		ID: int64(len(b.h.Audits) + 1), Actor: "op", Action: action, Affected: int64(len(ids)), Detail: detail,
	})
}

func (b *builder) letter(id string) *history.Letter {
	for i := len(b.h.Letters) - 1; i >= 0; i-- {
		if b.h.Letters[i].EventID == id {
			return &b.h.Letters[i]
		}
	}
	panic("no letter " + id)
}

// store records a message that the broker kept.
func (b *builder) store(id string) (messageID string) {
	row, at := b.row(id), b.at[id].Add(soon/2)
	attributes := maps.Clone(row.Headers)
	attributes["event_id"], attributes["event_type"] = row.EventID, row.Type
	attributes["aggregate_type"], attributes["aggregate_id"] = row.AggregateType, row.AggregateID
	attributes["created_at"], attributes["namespace"] = row.CreatedAt, row.Namespace
	if row.OrderingKey != "" {
		attributes["event_seq"] = strconv.FormatInt(row.Seq, 10)
	}
	messageID = fmt.Sprintf("m%d", len(b.h.Arrivals)+1)
	b.h.Arrivals = append(b.h.Arrivals, history.Arrival{
		At: at, Answered: at, Request: len(b.h.Arrivals) + 1, Order: int64(len(b.h.Arrivals) + 1), OrderingKey: row.OrderingKey, EventID: id, Topic: "domain", Stored: true,
		MessageID: messageID, Data: row.Payload, Attributes: attributes,
	})
	return messageID
}

// publish sends an event that is claimed, and settles it.
func (b *builder) publish(id, by string) {
	messageID := b.store(id)
	b.settle(id, by, func(at time.Time, s *history.State) { s.Published, s.MessageID = at, messageID })
}

// consume records the effects of both consumers.
func (b *builder) consume(id string) {
	for _, consumer := range []string{inbox, guarded} {
		b.h.Handled = append(b.h.Handled, history.Handled{At: b.at[id].Add(soon), Consumer: consumer, EventID: id})
		b.h.Effects = append(b.h.Effects, history.Effect{Consumer: consumer, EventID: id, Count: 1})
	}
}

func (b *builder) fault(kind, target string, from, length time.Duration) {
	b.h.Faults = append(b.h.Faults, history.Fault{Kind: kind, Target: target, From: start().Add(from), To: start().Add(from + length)})
}

func (b *builder) process(name, failpoint, exit string, from, to time.Duration) {
	pid := 100 + len(b.h.Processes)
	b.h.Processes = append(b.h.Processes,
		history.Process{At: start().Add(from), Name: name, PID: pid, Event: "started", Failpoint: failpoint},
		history.Process{At: start().Add(to), Name: name, PID: pid, Event: "exited", Failpoint: failpoint, Exit: exit})
}

// cleanup removes a published row when it is old enough.
func (b *builder) cleanup(id string) {
	ch := b.change(id, "operator", cleanupAge+time.Second, func(time.Time, *history.State) {})
	ch.Deleted, ch.After = true, history.State{}
	row := *b.row(id)
	row.RemovedAt = ch.At
	b.h.Removed = append(b.h.Removed, row)
	for i := range b.h.Rows {
		if b.h.Rows[i].EventID == id {
			b.h.Rows = append(b.h.Rows[:i], b.h.Rows[i+1:]...)
			break
		}
	}
	b.h.Audits = append(b.h.Audits, history.Audit{ID: int64(len(b.h.Audits) + 1), Actor: "op", Action: "cleanup", Affected: 1})
}

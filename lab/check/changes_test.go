package check_test

import (
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

// changeCorruptions are those of the record of changes: leases, attempts, duplicates.
func changeCorruptions() []corruption {
	return []corruption{
		{"settled by another", "I10", plain, func(h *history.History) { changeOf(h, plain, 1).By = "publisher-2" }},
		{"settled without a lease", "I10", plain, func(h *history.History) {
			drop(&h.Changes, func(ch *history.Change) bool { return ch.EventID == plain && ch.After.Lease.By != "" })
			changeOf(h, plain, 0).Before.Lease = history.Lease{}
		}},
		{"failed after it was published", "I10", plain, func(h *history.History) {
			insert(h, plain, 1, func(before history.State, ch *history.Change) {
				ch.By, ch.After.LastError, ch.After.Published = "publisher-2", "Unavailable", time.Time{}
			})
		}},
		{"claimed while leased", "I10", twice, func(h *history.History) {
			ch := changeOf(h, twice, 1)
			ch.At = ch.Before.Lease.Until.Add(-2 * time.Millisecond)
		}},
		{"claimed when dead", "I10", written, func(h *history.History) {
			insert(h, written, 1, func(before history.State, ch *history.Change) {
				ch.After.Lease = history.Lease{By: "owner-of-publisher-3", Until: ch.At.Add(lease)}
			})
		}},
		{"leased by a clock that is ahead", "I10", plain, func(h *history.History) { relet(h, plain, 2*time.Millisecond) }},
		{"leased by a clock that is behind", "I10", plain, func(h *history.History) { relet(h, plain, -10*time.Minute) }},
		{"one owner, two publishers", "I10", "id-of-line-2", func(h *history.History) {
			changeOf(h, "id-of-line-2", 0).By = "publisher-9"
		}},
		{"an operator touches a live row", "I10", plain, func(h *history.History) {
			insert(h, plain, 0, func(before history.State, ch *history.Change) { ch.By = "operator-2" })
		}},
		{"a change no statement makes", "I10", plain, func(h *history.History) {
			insert(h, plain, 0, func(before history.State, ch *history.Change) { ch.After.MessageID = "m1" })
		}},

		{"takeover without a charge", "I11", twice, func(h *history.History) {
			changeOf(h, twice, 1).After.Attempts = 0
			changeOf(h, twice, 2).Before.Attempts, changeOf(h, twice, 2).After.Attempts = 0, 0
			rowOf(h, twice).State.Attempts = 0
		}},
		{"claim that charges", "I11", plain, func(h *history.History) { charge(h, plain, 0, 1) }},
		{"failure that charges twice", "I11", failing, func(h *history.History) { charge(h, failing, 1, 1) }},
		{"death that charges twice", "I11", written, func(h *history.History) { charge(h, written, 1, 2) }},
		{"publish that charges", "I11", plain, func(h *history.History) { charge(h, plain, 1, 1) }},
		{"release that charges", "I11", givenBack, func(h *history.History) { charge(h, givenBack, 1, 2) }},
		{"replay that keeps the attempts", "I11", poison, func(h *history.History) { charge(h, poison, 2, 1) }},
		{"row that counts otherwise", "I11", failing, func(h *history.History) { rowOf(h, failing).State.Attempts = 1 }},
		{"failure without an error", "I11", failing, func(h *history.History) {
			changeOf(h, failing, 1).After.LastError, changeOf(h, failing, 2).Before.LastError = "", ""
			changeOf(h, failing, 2).After.LastError, changeOf(h, failing, 3).Before.LastError = "", ""
		}},

		{"stored twice beside a kill of another publisher", "I12", silent, func(h *history.History) {
			first, fault := arrivalOf(h, silent), &h.Faults[0]
			second := again(h, silent, "again")
			first.At, second.At = fault.From, fault.To.Add(time.Second)
			rowOf(h, silent).State.MessageID = "again"
		}},
		{"acknowledged, reported as failed, beside an error of the broker", "I12", failing, func(h *history.History) {
			storedThenFailed(h, history.Fault{Kind: "broker.error"})
		}},
		{"acknowledged, reported as failed, beside a reply that was lost to others", "I12", failing, func(h *history.History) {
			storedThenFailed(h, history.Fault{Kind: "broker.lost_reply"})
		}},
		{"acknowledged, reported as failed, beside another's network", "I12", failing, func(h *history.History) {
			storedThenFailed(h, history.Fault{Kind: "network.reset", Target: "publisher-2/broker"})
		}},
		{"acknowledged, reported as failed, beside its way to the database", "I12", failing, func(h *history.History) {
			storedThenFailed(h, history.Fault{Kind: "network.reset", Target: "publisher-1/postgres"})
		}},
		{"stored again long after a lease had expired", "I12", twice, func(h *history.History) {
			again(h, twice, "thrice").At = changeOf(h, twice, 2).At.Add(time.Minute)
			rowOf(h, twice).State.MessageID = "thrice"
		}},
		{"more duplicates than faults allow", "I12", "", func(h *history.History) {
			arrivalOf(h, twice).ReplyLost = true
			for range 4 { // two faults, two in flight, and one duplicate is there already
				again(h, twice, "again")
			}
		}},
		{"released though sent", "I12", givenBack, func(h *history.History) {
			first := again(h, givenBack, "early")
			first.At, first.Stored = changeOf(h, givenBack, 0).At.Add(time.Millisecond), false
		}},
		{"released though about to land", "I12", givenBack, func(h *history.History) {
			later := changeOf(h, givenBack, 2)
			later.At = later.At.Add(time.Second)
			first := again(h, givenBack, "late")
			first.At, first.Stored = changeOf(h, givenBack, 1).At.Add(500*time.Millisecond), false
		}},
	}
}

// storedThenFailed has the broker store what its publisher reports as failed, beside a fault.
func storedThenFailed(h *history.History, fault history.Fault) {
	again(h, failing, "early").At = changeOf(h, failing, 0).At.Add(time.Millisecond)
	fault.From, fault.To = start(), start().Add(time.Minute)
	h.Faults = append(h.Faults, fault)
}

// relet moves the end of an event's first lease.
func relet(h *history.History, id string, by time.Duration) {
	until := changeOf(h, id, 0).After.Lease.Until.Add(by)
	changeOf(h, id, 0).After.Lease.Until, changeOf(h, id, 1).Before.Lease.Until = until, until
}

// charge adds attempts in the nth change of an event, and to all that follows.
func charge(h *history.History, id string, n, more int) {
	seen := 0
	for i := range h.Changes {
		ch := &h.Changes[i]
		if ch.EventID != id {
			continue
		}
		if seen > n {
			ch.Before.Attempts += more
		}
		if seen >= n {
			ch.After.Attempts += more
		}
		seen++
	}
	rowOf(h, id).State.Attempts += more
}

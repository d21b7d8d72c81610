package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/history"
)

const plain = "plain-3"

// corruption is one thing that goes wrong in the clean run, and what the report must then name: that and nothing else.
type corruption struct {
	name      string
	invariant string
	event     string
	corrupt   func(h *history.History)
}

func corruptions() []corruption {
	var all []corruption
	for _, list := range [][]corruption{truthCorruptions(), endCorruptions(), contentCorruptions(), changeCorruptions(), operatorCorruptions(), orderCorruptions()} {
		all = append(all, list...)
	}
	return all
}

func TestEachCorruptionIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range corruptions() {
		t.Run(c.invariant+" "+c.name, func(t *testing.T) {
			t.Parallel()
			h := cleanRun()
			c.corrupt(h)
			report := check.Check(h)
			require.Empty(t, report.Invalid)
			require.Len(t, report.Violations, 1, "%v", report.Violations)
			v := report.Violations[0]
			require.Equal(t, []string{c.invariant, c.event}, []string{v.Invariant, v.EventID}, v.Text)
			require.Contains(t, report.String(), v.Text)
		})
	}
}

func TestEveryInvariantCanFail(t *testing.T) {
	t.Parallel()
	broken := map[string]bool{}
	for _, c := range corruptions() {
		broken[c.invariant] = true
	}
	require.Len(t, broken, 15)
}

func truthCorruptions() []corruption {
	return []corruption{
		{"published but lost by the broker", "I1", silent, func(h *history.History) {
			drop(&h.Arrivals, func(a *history.Arrival) bool { return a.EventID == silent })
		}},
		{"rolled back but sent", "I2", undone, func(h *history.History) {
			h.Arrivals = append(h.Arrivals, history.Arrival{At: start(), EventID: undone, Stored: true, MessageID: "x"})
		}},
		{"retracted but applied", "I2", retracted, func(h *history.History) {
			h.Effects = append(h.Effects, history.Effect{Consumer: inbox, EventID: retracted, Count: 1})
		}},
		{"handled but unheard of", "I2", "stranger", func(h *history.History) {
			h.Handled = append(h.Handled, history.Handled{At: start(), Consumer: inbox, EventID: "stranger"})
		}},
		{"acknowledged but lost", "I3", plain, func(h *history.History) { unledger(h, plain); forget(h, plain) }},
		{"rolled back but in the ledger", "I3", silent, func(h *history.History) {
			find(h.Transactions, func(tx *history.Transaction) bool { return tx.ID == "silent" }).Outcome = history.RolledBack
		}},
		{"rolled back to a savepoint but in the ledger", "I3", silent, func(h *history.History) {
			tx := find(h.Transactions, func(tx *history.Transaction) bool { return tx.ID == "silent" })
			tx.Events[0].Expect = history.Retract
		}},
		{"half a transaction", "I3", keptToo, func(h *history.History) { unledger(h, keptToo); forget(h, keptToo) }},
		{"a ledger row that was not written", "I3", silent, func(h *history.History) {
			drop(&h.Transactions, func(tx *history.Transaction) bool { return tx.ID == "silent" })
		}},
		{"two rows", "I4", plain, func(h *history.History) { h.Rows = append(h.Rows, *rowOf(h, plain)) }},
		{"a row without its ledger row", "I4", undone, func(h *history.History) {
			row := *rowOf(h, plain)
			row.EventID = undone
			h.Rows = append(h.Rows, row)
		}},
		{"no row and no message", "I4", plain, func(h *history.History) { forget(h, plain) }},
		{"a message but no row", "I4", plain, func(h *history.History) {
			drop(&h.Rows, func(r *history.Row) bool { return r.EventID == plain })
		}},
		{"a line with two rows", "I4", fromLine, func(h *history.History) {
			row := *rowOf(h, fromLine)
			row.EventID = "second"
			h.Rows = append(h.Rows, row)
		}},
		{"a line without a row", "I4", "line-3", func(h *history.History) {
			h.Ledger = append(h.Ledger, history.LedgerRow{TxID: "lines", Line: "line-3"})
			tx := find(h.Transactions, func(tx *history.Transaction) bool { return tx.ID == "lines" })
			tx.Events = append(tx.Events, history.Intent{Line: "line-3", Expect: history.Deliver})
		}},
		{"a line in the ledger, with its id, without a row", "I4", "vanished", func(h *history.History) {
			h.Ledger = append(h.Ledger, history.LedgerRow{TxID: "lines", EventID: "vanished", Line: "line-3"})
			tx := find(h.Transactions, func(tx *history.Transaction) bool { return tx.ID == "lines" })
			tx.Events = append(tx.Events, history.Intent{Line: "line-3", Expect: history.Deliver})
		}},
		{"an acknowledged line that is nowhere", "I3", "line-3", func(h *history.History) {
			tx := find(h.Transactions, func(tx *history.Transaction) bool { return tx.ID == "lines" })
			tx.Events = append(tx.Events, history.Intent{Line: "line-3", Expect: history.Deliver})
		}},
		{"a row of a line that is not in the ledger", "I4", "third", func(h *history.History) {
			row := *rowOf(h, fromLine)
			row.EventID, row.Headers = "third", map[string]string{"torture-line": "line-9"}
			h.Rows = append(h.Rows, row)
		}},
	}
}

func endCorruptions() []corruption {
	return []corruption{
		{"leased at the end", "I9", plain, func(h *history.History) {
			rowOf(h, plain).State.Lease = history.Lease{By: "owner-of-publisher-1", Until: h.Run.Ended}
		}},
		{"pending at the end", "I9", plain, func(h *history.History) { rowOf(h, plain).State.Published = time.Time{} }},
		{"stats count wrongly", "I13", "", func(h *history.History) { h.Stats[0].Said["pending"] = 1 }},
		{"stats say nothing", "I13", "", func(h *history.History) { delete(h.Stats[0].Said, "dead") }},
		{"stats say too much", "I13", "", func(h *history.History) { h.Stats[0].Said["leased"] = 3 }},
		{"goroutines leak", "I14", "", func(h *history.History) { h.Resources[0].Last = 36 }},
		{"a process stays", "I14", "", func(h *history.History) {
			drop(&h.Processes, func(p *history.Process) bool { return p.Name == "consumer-1" && p.Event == "exited" })
		}},
		{"a process ends by itself", "I14", "", func(h *history.History) {
			find(h.Processes, func(p *history.Process) bool { return p.Name == "consumer-1" && p.Event == "exited" }).Unexpected = true
		}},
	}
}

func contentCorruptions() []corruption {
	at := func(h *history.History, consumer, id string, after time.Duration) {
		first := find(h.Handled, func(r *history.Handled) bool { return r.Consumer == consumer && r.EventID == id })
		h.Handled = append(h.Handled, history.Handled{At: first.At.Add(after), Consumer: consumer, EventID: id})
	}
	return []corruption{
		{"effect twice", "I6", plain, func(h *history.History) { effectOf(h, guarded, plain).Count = 2 }},
		{"effect missing", "I6", plain, func(h *history.History) {
			drop(&h.Effects, func(e *history.Effect) bool { return e.Consumer == inbox && e.EventID == plain })
		}},
		{"handled twice without a cause", "I6", plain, func(h *history.History) {
			drop(&h.Run.NeedFaults, func(kind *string) bool { return *kind == "redis_flush" })
			*find(h.Faults, func(f *history.Fault) bool { return f.Kind == "redis_flush" }) =
				history.Fault{Kind: "sigkill", Target: inbox, From: start(), To: start()}
			at(h, guarded, plain, time.Second)
		}},
		{"deliverable but dead", "I7", plain, func(h *history.History) {
			h.Letters = append(h.Letters, history.Letter{ID: "l", EventID: plain, Reason: "rejected_by_broker", State: "open", Payload: rowOf(h, plain).Payload})
		}},
		{"died of attempts", "I7", poison, func(h *history.History) { letterOf(h, poison, "replayed").Reason = "max_attempts" }},
		{"dead letter lost", "I7", written, func(h *history.History) {
			drop(&h.Letters, func(l *history.Letter) bool { return l.EventID == written })
			drop(&h.Audits, func(a *history.Audit) bool { return a.Action == "dlq.discard" })
		}},
		{"replayed but left dead", "I7", poison, func(h *history.History) { letterOf(h, poison, "open").State = "replayed" }},
		{"open twice", "I7", poison, func(h *history.History) { letterOf(h, poison, "replayed").State = "open" }},
		{"dead letter of another payload", "I7", poison, func(h *history.History) { letterOf(h, poison, "open").Payload = "{}" }},
		{"dead letter but published", "I7", poison, func(h *history.History) {
			row := rowOf(h, poison)
			row.State.Dead, row.State.Published = time.Time{}, start()
		}},
		{"deliverable but its row is dead", "I7", plain, func(h *history.History) {
			row := rowOf(h, plain)
			row.State.Dead, row.State.Published = start(), time.Time{}
			h.Letters = append(h.Letters, history.Letter{ID: "l", EventID: plain, Reason: "rejected_by_broker", State: "open", Payload: row.Payload})
		}},
		{"deliverable, dead and never stored", "I7", silent, func(h *history.History) {
			drop(&h.Arrivals, func(a *history.Arrival) bool { return a.EventID == silent })
			row := rowOf(h, silent)
			row.State.Dead, row.State.Published = start(), time.Time{}
			h.Letters = append(h.Letters, history.Letter{ID: "l", EventID: silent, Reason: "rejected_by_broker", State: "open", Payload: row.Payload})
		}},
		{"replayed, and published though it cannot be", "I7", poison, func(h *history.History) {
			letterOf(h, poison, "open").State = "replayed"
			row := rowOf(h, poison)
			row.State.Dead, row.State.Published = time.Time{}, start()
		}},
		{"never died though it cannot be published", "I7", written, func(h *history.History) {
			drop(&h.Letters, func(l *history.Letter) bool { return l.EventID == written })
			drop(&h.Audits, func(a *history.Audit) bool { return a.Action == "dlq.discard" })
			row := rowOf(h, written)
			row.State.Dead, row.State.Published = time.Time{}, start()
		}},
		{"dead row without a letter", "I7", plain, func(h *history.History) { rowOf(h, plain).State.Dead = start() }},
		{"message changed", "I8", plain, func(h *history.History) {
			a := arrivalOf(h, plain)
			a.Data = a.Data[:len(a.Data)-1] + " }"
		}},
		{"attribute changed", "I8", plain, func(h *history.History) { arrivalOf(h, plain).Attributes["aggregate_id"] = "a-2" }},
		{"header lost", "I8", plain, func(h *history.History) { delete(arrivalOf(h, plain).Attributes, "trace") }},
		{"attribute added", "I8", plain, func(h *history.History) { arrivalOf(h, plain).Attributes["extra"] = "" }},
		{"number rounded", "I8", plain, func(h *history.History) {
			find(h.Ledger, func(l *history.LedgerRow) bool { return l.EventID == plain }).Data = `{"name":"plain-3","cents":12345678901234567891}`
		}},
		{"message unknown to the broker", "I8", plain, func(h *history.History) { rowOf(h, plain).State.MessageID = "m999" }},
	}
}

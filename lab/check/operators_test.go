package check_test

import (
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

func operatorCorruptions() []corruption {
	deletion := func(h *history.History) *history.Change {
		return find(h.Changes, func(ch *history.Change) bool { return ch.Deleted })
	}
	command := func(h *history.History, cmd history.Command) {
		cmd.At, cmd.Ended = start().Add(40*time.Second), start().Add(41*time.Second)
		h.Commands = append(h.Commands, cmd)
	}
	return []corruption{
		{"removed too young", "I15", old, func(h *history.History) {
			ch := deletion(h)
			ch.At = ch.Before.Published.Add(cleanupAge - 2*time.Second)
		}},
		{"removed unpublished", "I15", old, func(h *history.History) {
			deletion(h).Before = changeOf(h, old, 0).After
			drop(&h.Changes, func(ch *history.Change) bool { return ch.EventID == old && !ch.After.Published.IsZero() })
		}},
		{"removed without a trace", "I15", "", func(h *history.History) {
			drop(&h.Audits, func(a *history.Audit) bool { return a.Action == "cleanup" })
		}},
		{"removed without a delete", "I15", old, func(h *history.History) {
			drop(&h.Changes, func(ch *history.Change) bool { return ch.Deleted })
			drop(&h.Audits, func(a *history.Audit) bool { return a.Action == "cleanup" })
		}},
		{"removed and still there", "I15", old, func(h *history.History) {
			row := h.Removed[0]
			row.RemovedAt = time.Time{}
			h.Rows, h.Removed = append(h.Rows, row), nil
		}},
		{"replay without its audit row", "I15", poison, func(h *history.History) {
			drop(&h.Audits, func(a *history.Audit) bool { return a.Action == "dlq.replay" })
		}},
		{"audit of a replay that was not", "I15", plain, func(h *history.History) {
			h.Audits = append(h.Audits, history.Audit{ID: 99, Action: "dlq.replay", Affected: 1, Detail: map[string]any{"eventIds": []any{plain}}})
		}},
		{"audit that names other than it counts", "I15", "", func(h *history.History) {
			find(h.Audits, func(a *history.Audit) bool { return a.Action == "dlq.replay" }).Affected = 2
		}},
		{"discard without its audit row", "I15", "", func(h *history.History) {
			drop(&h.Audits, func(a *history.Audit) bool { return a.Action == "dlq.discard" })
		}},
		{"restore that restored nothing", "I15", "", func(h *history.History) {
			h.Audits = append(h.Audits, history.Audit{ID: 99, Action: "dlq.restore", Affected: 1})
		}},
		{"cleanup met the guard", "I15", "", func(h *history.History) {
			command(h, history.Command{Verb: "cleanup", Exit: 5, Stderr: "error: row 1 of table outbox_events may not be deleted (SQLSTATE OX101)"})
		}},
		{"command failed by itself", "I15", "", func(h *history.History) {
			command(h, history.Command{Verb: "stats", Exit: 1, Stderr: "error: column does not exist"})
		}},
		{"command lost its connection without a fault", "I15", "", func(h *history.History) {
			drop(&h.Run.NeedFaults, func(kind *string) bool { return *kind == "redis_flush" })
			find(h.Faults, func(f *history.Fault) bool { return f.Kind == "redis_flush" }).From = start()
			find(h.Faults, func(f *history.Fault) bool { return f.Kind == "redis_flush" }).To = start()
			command(h, history.Command{Verb: "stats", Exit: 1, Stderr: "error: connection refused"})
		}},
		{"command used wrongly", "I15", "", func(h *history.History) {
			command(h, history.Command{Verb: "cleanup", Exit: 2, Stderr: "error: unknown flag"})
		}},
	}
}

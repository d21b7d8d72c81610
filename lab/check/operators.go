package check

import (
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

const (
	actionCleanup = "cleanup"
	actionReplay  = "dlq.replay"
	actionDiscard = "dlq.discard"
	actionRestore = "dlq.restore"
)

// ageError is how much younger than asked a removed row may look: its age is taken by other clocks.
const ageError = time.Second

// deletes is I15 for cleanup: what went was old and published, and is in the audit.
func (c *checker) deletes() {
	removed := make(map[string]int, len(c.h.Removed))
	for _, row := range c.h.Removed {
		removed[row.EventID]++
	}
	var sum int64
	for _, ch := range c.h.Changes {
		if !ch.Deleted {
			continue
		}
		sum++
		c.checked("I15")
		age := ch.At.Sub(ch.Before.Published)
		switch {
		case ch.Before.Published.IsZero():
			c.violate("I15", ch.EventID, "was removed by %s at %s but was not published", ch.By,
				clock(ch.At))
		case age < c.h.Run.CleanupAge-ageError:
			c.violate("I15", ch.EventID, "was removed by %s %s after it was published; allowed are %s",
				ch.By, age, c.h.Run.CleanupAge)
		case removed[ch.EventID] == 0:
			c.violate("I15", ch.EventID, "was removed by %s at %s, but what was removed was not kept",
				ch.By, clock(ch.At))
		}
		removed[ch.EventID]--
	}
	for _, row := range c.h.Removed {
		if id := row.EventID; removed[id] > 0 {
			removed[id] = 0
			c.violate("I15", id, "was removed without a recorded delete")
		}
	}
	if audited := c.audited(actionCleanup); audited != sum {
		c.violate("I15", "", "cleanup removed %d events, its audit rows say %d", sum, audited)
	}
}

func (c *checker) audited(action string) (affected int64) {
	for _, a := range c.h.Audits {
		if a.Action == action {
			affected += a.Affected
		}
	}
	return affected
}

// audits is I15 for what operators did to dead letters.
func (c *checker) audits() {
	c.replayAudits()
	c.checked("I15")
	var discarded int64
	for _, l := range c.h.Letters {
		if l.State == letterDiscarded {
			discarded++
		}
	}
	if audited := c.audited(actionDiscard) - c.audited(actionRestore); audited != discarded {
		c.violate("I15", "", "%d dead letters are discarded, the audit rows of discards less those of restores say %d", discarded, audited)
	}
}

// replayAudits compares each event's replays with the audit rows that name it.
func (c *checker) replayAudits() {
	named := c.named(actionReplay)
	for _, a := range c.h.Audits {
		if n := len(texts(a.Detail["eventIds"])); a.Action == actionReplay && int64(n) != a.Affected {
			c.violate("I15", "", "audit row %d of a replay says %d events and names %d", a.ID, a.Affected, n)
		}
	}
	for _, e := range c.events {
		replays, audits := 0, 0
		for _, ch := range e.changes {
			if kindOf(ch) == replayed {
				replays++
			}
		}
		if row := e.row(); row != nil {
			audits = named[row.EventID]
		}
		if replays+audits > 0 {
			c.checked("I15")
		}
		if replays != audits {
			c.violate("I15", e.id, "was replayed %d times, the audit names it %d times", replays, audits)
		}
	}
}

// texts reads a list of strings, fresh or decoded.
func texts(list any) []string {
	if list, ok := list.([]string); ok {
		return list
	}
	decoded, _ := list.([]any)
	out := make([]string, 0, len(decoded))
	for _, v := range decoded {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// commands is I15 for the commands operators ran.
func (c *checker) commands() {
	for _, cmd := range c.h.Commands {
		c.checked("I15")
		switch {
		case cmd.Exit > 0 && (strings.Contains(cmd.Stderr, "OX101") || strings.Contains(cmd.Stderr,
			"may not be deleted")):
			c.violate("I15", "", "%s at %s tried to delete what may not be deleted: %s", cmd.Verb,
				clock(cmd.At), lastLine(cmd.Stderr))
		case cmd.Exit == 2 || cmd.Exit == 6:
			c.violate("I15", "", "%s at %s was used wrongly (exit %d): %s", cmd.Verb, clock(cmd.At),
				cmd.Exit, lastLine(cmd.Stderr))
		case broke(&cmd) && !c.excused(&cmd):
			c.violate("I15", "", "%s at %s failed without a fault: %s", cmd.Verb, clock(cmd.At),
				lastLine(cmd.Stderr))
		}
	}
}

// broke reports whether a command failed; other answers are no zero either: not found, another
// process is doing it, some of it done. What is done in part by a cleanup or a migration was cut
// short by an error.
func broke(cmd *history.Command) bool {
	return cmd.Exit == 1 || cmd.Exit == 5 &&
		(strings.HasPrefix(cmd.Verb, "cleanup") || strings.HasPrefix(cmd.Verb, "migrate"))
}

// afterOutage is how long a command may still meet what a fault left: a server that recovers, a
// broken connection.
const afterOutage = 15 * time.Second

// excused reports whether a command failed because a server was away, and that a fault had taken it
// away.
func (c *checker) excused(cmd *history.Command) bool {
	text := strings.ToLower(cmd.Stderr)
	away := slices.ContainsFunc(outageSigns(), func(sign string) bool { return strings.Contains(text, sign) })
	// Producers live with connections that are cut without a fault; what they sent is for I3 to judge.
	if !away || strings.HasPrefix(cmd.Verb, "emit") {
		return away
	}
	return slices.ContainsFunc(c.causes, func(f cause) bool {
		return within(f.from, f.to.Add(afterOutage), cmd.At, cmd.Ended)
	})
}

// outageSigns are how an absent or refusing server shows in an error.
func outageSigns() []string {
	return []string{
		"connect", "eof", "broken pipe", "reset by peer", "i/o timeout", "timeout", "deadline exceeded",
		"answer", "conn closed", "closed pool", "shutting down", "starting up", "recovery mode", "terminating",
		"57p0", "25006", "read-only", "55p03", "08006", "53300", "oom command", "loading", "unavailable", "canceling statement",
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "error:") })
	if at < 0 {
		at = len(lines) - 1
	}
	return shorten(lines[at])
}

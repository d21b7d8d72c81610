package check_test

import (
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/lab/history"
)

// The events of the clean run that have a story of their own.
const (
	failing   = "failing"    // failed twice, then published
	twice     = "twice"      // stored twice: its publisher was killed before it could settle
	givenBack = "given-back" // released unsent, then published by another
	old       = "old"        // removed by cleanup
	silent    = "silent"     // of a type the consumers do not act on
	kept      = "kept"       // the commit's reply was lost, but it committed
	keptToo   = "kept-too"
	gone      = "gone" // the commit never arrived
	undone    = "undone"
	retracted = "retracted"
	poison    = "poison" // died, was replayed, died again
	written   = "written-off"
	fromLine  = "id-of-line-1"
)

// ordered is how many of the plain events have an ordering key.
const ordered = 3

// cleanRun is a small run in which everything that may happen happens, and nothing is wrong.
func cleanRun() *history.History {
	b := newBuilder()
	b.producers()
	for i := range ordered {
		b.row(fmt.Sprintf("plain-%d", i)).OrderingKey = "default/a"
	}
	for i := range 8 {
		b.plain(fmt.Sprintf("plain-%d", i), fmt.Sprintf("publisher-%d", i%3+1))
	}
	for _, id := range []string{kept, keptToo, fromLine, "id-of-line-2", "beside", old} {
		b.plain(id, "publisher-2")
	}
	b.claim(silent, "publisher-3")
	b.publish(silent, "publisher-3")

	for range 2 {
		b.claim(failing, "publisher-1")
		b.fail(failing, "publisher-1", "Unavailable")
	}
	b.plain(failing, "publisher-2")

	b.claim(givenBack, "publisher-1")
	b.settle(givenBack, "publisher-1", func(time.Time, *history.State) {})
	b.plain(givenBack, "publisher-3")

	b.claim(twice, "publisher-1")
	b.store(twice)
	b.claimAfter(twice, "publisher-2", lease+time.Second)
	b.publish(twice, "publisher-2")
	b.consume(twice)

	b.claim(poison, "publisher-1")
	b.die(poison, "publisher-1")
	b.replay(poison)
	b.claim(poison, "publisher-2")
	b.die(poison, "publisher-2")
	b.claim(written, "publisher-3")
	b.die(written, "publisher-3")
	b.discard(written)

	b.cleanup(old)
	b.surroundings()
	return b.h
}

func (b *builder) plain(id, by string) {
	b.claim(id, by)
	b.publish(id, by)
	b.consume(id)
}

func (b *builder) producers() {
	for i := 0; i < 8; i += 2 {
		b.transaction(fmt.Sprintf("t%d", i), "plain", history.Committed, true,
			deliver(fmt.Sprintf("plain-%d", i)), deliver(fmt.Sprintf("plain-%d", i+1)))
	}
	b.transaction("failing", "late", history.Committed, true, deliver(failing), deliver(givenBack))
	b.transaction("twice", "plain", history.Committed, true, deliver(twice))
	b.transaction("old", "plain", history.Committed, true, deliver(old))
	b.transaction("silent", "plain", history.Committed, true,
		history.Intent{EventID: silent, Type: unhandled, Topic: "analytics", Expect: history.Deliver})
	b.transaction("kept", "cut_commit", history.Unknown, true, deliver(kept), deliver(keptToo))
	b.transaction("gone", "cut_commit", history.Unknown, false, deliver(gone), deliver("gone-too"))
	b.transaction("undone", "rollback", history.RolledBack, false, deliver(undone))
	b.transaction("savepoint", "savepoint", history.Committed, true, deliver("beside"),
		history.Intent{EventID: retracted, Type: handled, Expect: history.Retract})
	b.transaction("poison", "plain", history.Committed, true,
		history.Intent{EventID: poison, Type: handled, Expect: history.Die},
		history.Intent{EventID: written, Type: handled, Expect: history.Die})
	b.transaction("lines", "cli", history.Committed, true,
		history.Intent{Line: "line-1", Type: handled, Expect: history.Deliver},
		history.Intent{Line: "line-2", Type: handled, Expect: history.Deliver})
}

// surroundings are faults, processes, commands and the figures at the end.
func (b *builder) surroundings() {
	b.fault("sigkill", "publisher-1", 6*time.Second, time.Second)
	b.fault("redis_flush", "redis", 30*time.Second, 0)
	b.fault("db_restart", "postgres", 50*time.Second, 3*time.Second)
	b.process("publisher-1", "after_publish", "killed", 0, 6*time.Second)
	b.process("publisher-1", "", "0", 7*time.Second, 80*time.Second)
	b.process("consumer-1", "", "0", 0, 80*time.Second)
	b.h.Commands = []history.Command{
		{At: start().Add(20 * time.Second), Ended: start().Add(21 * time.Second), Verb: "dlq replay", Exit: 0},
		{At: start().Add(25 * time.Second), Ended: start().Add(25 * time.Second), Verb: "dlq replay", Exit: -1, Failpoint: "replay"},
		{At: start().Add(51 * time.Second), Ended: start().Add(52 * time.Second), Verb: "stats", Exit: 1, Stderr: "error: count events: unexpected EOF"},
		{At: start().Add(60 * time.Second), Ended: start().Add(61 * time.Second), Verb: "cleanup", Exit: 0},
	}
	b.h.Stats = []history.Stats{{Said: map[string]int64{"pending": 0, "dead": 2}, Truth: map[string]int64{"pending": 0, "dead": 2}}}
	b.h.Resources = []history.Resource{{Name: "publisher-1 goroutines", First: 30, Last: 32, Slack: 5}}
}

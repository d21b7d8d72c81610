package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxRefusals bounds the memory of refused messages. What does not fit is
// treated as if it had not been refused before.
const maxRefusals = 10_000

// A broker answers a message that it can never store, and a topic that takes no
// message at all (a schema was attached, the project's name is malformed), with
// the same code. Dead-lettering the first is right; dead-lettering for the second
// would empty the whole backlog into the dead letters. A single answer cannot
// tell which it is, so the topic's other answers decide:
//
//   - The topic has accepted another message since: the message is to blame. Where
//     both were in one request, the Publisher knows and answers Rejected; where
//     not, the message dies when it is refused a second time.
//   - Several messages were refused and none was accepted since: the topic is
//     misconfigured. It is left alone, its rows keep their attempts, and the first
//     message that a trial gets accepted ends that.
//   - One message was refused and there is no other to compare it with: it loses
//     an attempt and waits, like any row that failed. It ends as a dead letter
//     when its attempts are used up, at the latest after Σ backoff (about six
//     minutes by default), or earlier when the topic accepts something else.
//
// A publisher remembers when it saw a refusal. That another one did, or one that is
// no more, the row's last error tells: then the first answer came before this claim.

// refusedMark begins the last error of a row that was refused and waits.
const refusedMark = "refused: "

// refused is what the broker answered when it last refused the row.
func (r *Claimed) refused() (answer string, ok bool) {
	return strings.CutPrefix(r.LastError, refusedMark)
}

// blame gives each refused result of a group the class that the topic's other
// answers imply: Rejected, Misconfigured, or still Refused when nothing is known.
func (b *breaker) blame(g *group, results []Result, now time.Time) {
	unexplained := RefusedAt(results)
	if len(unexplained) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	unexplained = slices.DeleteFunc(unexplained, func(i int) bool {
		id := g.rows[i].ID
		first, known := b.refused[id]
		_, before := g.rows[i].refused()
		if !known && before {
			first = g.claimed
		}
		guilty := (known || before) && b.lastAccepted.After(first)
		if guilty {
			results[i].Err = NewFailure(Rejected, CodeOf(results[i].Err), results[i].Err)
			delete(b.refused, id)
		} else if !known && len(b.refused) < maxRefusals {
			b.refused[id] = now
		}
		return guilty
	})
	if AnyAccepted(results) || !b.refusingLocked() {
		return
	}
	for _, i := range unexplained {
		results[i].Err = NewFailure(Misconfigured, CodeOf(results[i].Err),
			fmt.Errorf("the topic accepts no message: %w", results[i].Err))
	}
}

// accepted records that the broker has stored the messages of a group that were
// sent then.
func (b *breaker) accepted(sent time.Time, g *group, results []Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.After(b.lastAccepted) {
		b.lastAccepted = sent
	}
	clear(b.failed)
	for i := 0; i < len(results) && len(b.refused) > 0; i++ {
		if results[i].Err == nil {
			delete(b.refused, g.rows[i].ID)
		}
	}
}

// refusing reports whether the topic has refused several messages and accepted
// none since.
func (b *breaker) refusing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusingLocked()
}

func (b *breaker) refusingLocked() bool {
	unexplained := 0
	for _, first := range b.refused {
		if !b.lastAccepted.After(first) {
			unexplained++
		}
	}
	return unexplained > 1
}

// AnyAccepted reports whether the broker has accepted one of the messages.
func AnyAccepted[R ~resultFields](results []R) bool {
	return slices.ContainsFunc(results, func(r R) bool { return Result(r).Err == nil })
}

// RefusedAt lists the results whose message the broker has refused.
func RefusedAt[R ~resultFields](results []R) (at []int) {
	for i, r := range results {
		if err := Result(r).Err; err != nil && ClassOf(err) == Refused {
			at = append(at, i)
		}
	}
	return at
}

// own reports whether what a destination fails is the fault of a message, not of the topic:
// it is as long as one message alone fails. When a second one does, and none was accepted
// since the first, all of them may fail: the topic is left alone, so that they keep their
// attempts.
func (b *breaker) own(g *group, results []Result) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, r := range results {
		if r.Err != nil && isAnswered(r.Err) && len(b.failed) < maxRefusals {
			b.failed[g.rows[i].ID] = true
		}
	}
	return len(b.failed) == 1
}

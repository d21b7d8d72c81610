package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// attemptsSpent is the death of a row that has no attempts left when it is
// claimed: its last publisher ended without a verdict, or the maximum was lowered.
// Its cause is why the last attempt failed.
func attemptsSpent(row *Claimed, limit int) *unfit {
	if answer, ok := row.refused(); ok {
		return &unfit{reason: outbox.ReasonRejectedByBroker, err: errors.New(answer)}
	}
	if row.LastError != "" {
		return &unfit{reason: outbox.ReasonMaxAttempts, err: errors.New(row.LastError)}
	}
	return &unfit{reason: outbox.ReasonMaxAttempts, err: fmt.Errorf(
		"no attempts left: %d of %d were used, and none has left an error", row.AttemptCount, limit)}
}

// attemptLimit is the row's own, or its type's, or the publisher's.
func (d *Dispatcher) attemptLimit(row *Claimed) int {
	if row.MaxAttempts > 0 {
		return row.MaxAttempts
	}
	return cmp.Or(d.policy(row).MaxAttempts, d.cfg.MaxAttempts)
}

// policy is what the catalogue says of how the row is tried.
func (d *Dispatcher) policy(row *Claimed) wire.Policy {
	t, _ := d.catalogue.Describe(row.Namespace, row.EventType)
	return t.Policy
}

// delay is how long a row waits that has failed so many times. One that expires meanwhile is looked
// at then.
func (d *Dispatcher) delay(row *Claimed, attempts int) time.Duration {
	p, b := d.policy(row), d.cfg.Backoff
	b.Min = cmp.Or(p.BackoffMin, b.Min)
	b.Max = max(cmp.Or(p.BackoffMax, b.Max), b.Min)
	if p.BackoffMax > 0 {
		b.Min, b.Max = min(b.Min, p.BackoffMax), p.BackoffMax
	}
	delay := b.Jittered(attempts, d.cfg.Random())
	if p.ExpiresAfter > 0 && !row.Since.IsZero() {
		delay = min(delay, max(p.ExpiresAfter-row.ReadAt.Sub(row.Since), 0))
	}
	return delay
}

// expired is why a row is not sent any more, or nil.
func expired(row *Claimed, p wire.Policy) *unfit {
	if p.ExpiresAfter == 0 || row.Since.IsZero() || row.ReadAt.Sub(row.Since) < p.ExpiresAfter {
		return nil
	}
	err := fmt.Errorf("not published within %s, which its type allows", wire.SpanText(p.ExpiresAfter))
	if row.LastError != "" {
		err = fmt.Errorf("%w; the last attempt failed: %s", err, row.LastError)
	}
	return &unfit{outbox.ReasonExpired, err, true}
}

func deadLetter(row *Claimed, topic string, reason outbox.DeadReason, err error, attempted bool) Dead {
	text := storedError(err)
	return Dead{
		Key: row.Key, Reason: reason, Error: text, Topic: topic,
		Fingerprint: outbox.Fingerprint(reason, text), Attempted: attempted,
	}
}

// judgement is what a group's results mean for its rows and its topic.
type judgement struct {
	verdicts Verdicts
	attempts []Attempt
	// answered: the broker is there and reads what it is sent.
	answered bool
	// outage is the error that blames the broker or the topic, set when nothing
	// of the group was accepted.
	outage error
	// sentTo is the largest seq that was sent in vain.
	sentTo int64
}

// judge turns the broker's results into verdicts.
// own: failures that the destination answered with are those of their rows alone.
func (d *Dispatcher) judge(g *group, results []Result, own bool) judgement {
	j := judgement{attempts: make([]Attempt, 0, len(g.rows))}
	j.verdicts.Published = make([]Published, 0, len(g.rows))
	for i, row := range g.rows {
		err := results[i].Err
		if err == nil {
			j.answered = true
			j.verdicts.Published = append(j.verdicts.Published, Published{row.Key, results[i].MessageID})
			j.attempts = append(j.attempts, Attempt{Row: row, Topic: g.topic, Outcome: OutcomePublished, Number: row.AttemptCount + 1})
			continue
		}
		a := d.judgeFailure(g.topic, row, err, &j.verdicts)
		switch class := ClassOf(err); {
		case class == Rejected || class == Refused, own && isAnswered(err):
			j.answered = true
		case provesNothing(err):
		default:
			j.sentTo = max(j.sentTo, row.Seq)
			if class == Misconfigured || j.outage == nil {
				j.outage = err
			}
		}
		j.attempts = append(j.attempts, a)
	}
	if j.answered && ClassOf(j.outage) != Misconfigured {
		j.outage = nil
	}
	return j
}

func (d *Dispatcher) judgeFailure(topic string, row *Claimed, err error, v *Verdicts) Attempt {
	a := Attempt{Row: row, Topic: topic, Outcome: OutcomeFailed, Number: row.AttemptCount + 1, Err: err}
	if errors.Is(err, ErrUnsent) {
		// Other messages took the time. They are settled now, so the next try
		// has more of it.
		a.Outcome, a.Number = OutcomeReleased, row.AttemptCount
		a.Delay = d.delay(row, 1)
		v.Failed = append(v.Failed, Failed{Key: row.Key, Error: storedError(err), Free: true, Delay: a.Delay})
		return a
	}
	switch ClassOf(err) {
	case Misconfigured:
		a.Outcome = OutcomeReleased
		v.Failed = append(v.Failed, Failed{Key: row.Key, Error: storedError(err), Free: true})
	case Rejected:
		a.Outcome, a.Reason = OutcomeDead, outbox.ReasonRejectedByBroker
		v.Dead = append(v.Dead, deadLetter(row, topic, a.Reason, err, true))
	default:
		if a.Number >= d.attemptLimit(row) {
			a.Outcome, a.Reason = OutcomeDead, outbox.ReasonMaxAttempts
			if ClassOf(err) == Refused {
				a.Reason = outbox.ReasonRejectedByBroker
			}
			v.Dead = append(v.Dead, deadLetter(row, topic, a.Reason, err, true))
			break
		}
		a.Delay = max(d.delay(row, a.Number), waitOf(err))
		if ClassOf(err) == Refused {
			err = fmt.Errorf(refusedMark+"%w", err)
		}
		v.Failed = append(v.Failed, Failed{Key: row.Key, Error: storedError(err), Delay: a.Delay})
	}
	return a
}

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// simCodes are the answers of a broker in trouble. InvalidArgument is not among
// them: it is for the message that is to blame, and for a topic that refuses
// everything.
var simCodes = []string{
	"Canceled", "Unknown", "DeadlineExceeded", "ResourceExhausted", "Aborted", "Internal", "Unavailable",
	"NotFound", "PermissionDenied", "Unauthenticated", "FailedPrecondition",
}

// simBroker stores messages, when it feels like it.
type simBroker struct {
	w      *world
	stored int
	// windows are the outages and misconfigurations of a topic at the moment.
	windows []*window
}

// window is a time during which a topic takes nothing.
type window struct {
	id    int
	topic string // empty: all
	code  string
	// outage: the broker cannot be reached, and no row may die of it.
	outage bool
	// refuses: the topic says that it is ready, and accepts no message.
	refuses bool
	from    time.Time
	// known is when a publisher heard of it.
	known map[*process]time.Time
}

// publishCall is a request to publish.
type publishCall struct {
	call
	topic   string
	sent    time.Time
	msgs    []Message
	leases  []*lease
	results []Result
	// outage is the id of the outage that answered.
	outage int
	lost   bool
	// abandoned: the publisher stopped waiting because it was told to end.
	abandoned bool
}

// Publish implements Publisher.
func (p *process) Publish(ctx context.Context, topic string, msgs []Message) []Result {
	c := &publishCall{topic: topic, sent: time.Now(), msgs: msgs, call: call{proc: p, ctx: ctx, kind: "publish"}}
	c.detail = topic + " " + shortIDs(column(msgs, func(m Message) string { return m.EventID }))
	c.admit = func() { p.w.broker.admit(c) }
	c.fail = func(err error) {
		c.lost, c.abandoned = true, errors.Is(err, context.Canceled)
		p.w.audit.excuseLeases(c.leases, "publish: no answer in time")
		c.results = same(len(msgs), NewFailure(Retryable, errText(err), err))
	}
	c.heard = func() { p.w.audit.answered(c) }
	p.w.park(&c.call)
	if p.dead {
		return make([]Result, len(msgs))
	}
	return c.results
}

// Limits implements Publisher.
func (p *process) Limits(string) wire.Limits { return wire.PubSubLimits() }

// Ready implements Publisher.
func (p *process) Ready(ctx context.Context, topic string) error {
	var answer error
	c := &call{proc: p, ctx: ctx, kind: "ready", detail: topic + " " + callerRole()}
	c.fail = func(err error) { answer = NewFailure(Retryable, errText(err), err) }
	c.admit = func() {
		w := p.w
		travel := w.between(100*time.Microsecond, 10*time.Millisecond)
		if w.suffers(publishHang) {
			return
		}
		w.after(travel, func() {
			if c.replied || c.held {
				return
			}
			if at := w.broker.window(topic); at != nil && !at.refuses {
				answer = simFailure(at.code)
			} else if w.suffers(probeError) {
				answer = simFailure(simCodes[w.rng.IntN(len(simCodes))])
			}
			w.letGo(c, answer)
		})
	}
	p.w.park(c)
	if p.dead {
		return nil
	}
	return answer
}

func simFailure(code string) error {
	class := Retryable
	switch code {
	case "NotFound", "PermissionDenied", "Unauthenticated", "FailedPrecondition":
		class = Misconfigured
	case codeRefused:
		class = Refused
	}
	return NewFailure(class, code, errors.New("simulated "+code))
}

// codeRefused is the answer to a message, or by a topic, that is refused.
const codeRefused = "InvalidArgument"

func same(n int, err error) []Result {
	out := make([]Result, n)
	for i := range out {
		out[i].Err = err
	}
	return out
}

func (b *simBroker) window(topic string) *window {
	for _, at := range b.windows {
		if at.topic == "" || at.topic == topic {
			return at
		}
	}
	return nil
}

func (b *simBroker) windowByID(id int) *window {
	for _, at := range b.windows {
		if at.id == id && id != 0 {
			return at
		}
	}
	return nil
}

func (b *simBroker) admit(c *publishCall) {
	w := b.w
	c.leases = w.audit.offered(c.proc, c.topic, c.msgs)
	c.survives = w.chance(w.plan.rate[publishStoredLate])
	travel := w.between(200*time.Microsecond, 20*time.Millisecond)
	switch {
	case w.suffers(publishUnsent):
		for _, l := range c.leases {
			l.offered = false
		}
		c.results = same(len(c.msgs), unsent(context.DeadlineExceeded))
		w.answer(&c.call, travel)
		return
	case w.suffers(publishHang):
		c.lost = true
		w.audit.excuseLeases(c.leases, "publish: no answer")
		if w.chance(0.5) {
			return
		}
		travel = w.between(0, w.plan.cfg.PublishTimeout)
	case w.suffers(publishSlow):
		travel = w.between(20*time.Millisecond, w.plan.cfg.PublishTimeout*3/2)
	}
	w.after(travel, func() { b.arrive(c) })
}

// arrive is the moment the broker reads the request.
func (b *simBroker) arrive(c *publishCall) {
	w := b.w
	if c.doomed {
		return
	}
	if c.gone || c.proc.dead {
		w.count(publishStoredLate)
		w.audit.excuseLeases(c.leases, "publish: stored late")
	}
	c.begun = true
	results := b.judge(c)
	if c.lost || c.gone {
		return
	}
	c.results = results
	travel := w.between(200*time.Microsecond, 20*time.Millisecond)
	if w.suffers(publishReplyLost) {
		w.audit.excuseLeases(c.leases, "publish: reply lost")
		c.results, c.outage = same(len(c.msgs), simFailure("Unavailable")), 0
	}
	w.answer(&c.call, travel)
}

// judge stores what can be stored.
func (b *simBroker) judge(c *publishCall) []Result {
	w := b.w
	if at := b.window(c.topic); at != nil {
		if at.outage {
			c.outage = at.id
		}
		if at.refuses {
			w.audit.refused(c.leases, at)
		}
		return same(len(c.msgs), simFailure(at.code))
	}
	if w.suffers(publishError) {
		return same(len(c.msgs), simFailure(simCodes[w.rng.IntN(len(simCodes))]))
	}
	if len(c.msgs) > 0 && c.msgs[0].OrderingKey != "" {
		return b.judgeInOrder(c)
	}
	results := make([]Result, len(c.msgs))
	for i, m := range c.msgs {
		kind := w.audit.kindOf(m.EventID)
		switch {
		case kind == kindRejected:
			results[i].Err = simFailure(codeRefused)
		case kind == kindStubborn && !w.calm, w.suffers(publishPartly):
			results[i].Err = simFailure("Internal")
		default:
			results[i].MessageID = b.store(c, i)
		}
	}
	return proven(results)
}

func (b *simBroker) store(c *publishCall, i int) (messageID string) {
	b.stored++
	messageID = fmt.Sprint("m", b.stored)
	b.w.say("the broker stores %s of %s as %s", shortIDs([]string{c.msgs[i].EventID}), c.proc.name, messageID)
	b.w.audit.stored(c.leases[i], c.msgs[i])
	return messageID
}

// judgeInOrder stores messages of one key as requests of some size: each as a
// whole, up to the first that fails.
func (b *simBroker) judgeInOrder(c *publishCall) []Result {
	w, size := b.w, 1+b.w.rng.IntN(len(c.msgs))
	sent := 0
	return inOrder(c.ctx, c.msgs, func(left []Message) int { return min(size, len(left)) }, func(_ context.Context, part []Message) []Result {
		from := sent
		sent += len(part)
		for _, m := range part {
			if m.OrderingKey != c.msgs[0].OrderingKey {
				w.audit.violate("I5", "row %s is sent with a row of another key", m.EventID)
			}
			if (w.audit.kindOf(m.EventID) == kindStubborn && !w.calm) || w.suffers(publishPartly) {
				for _, l := range c.leases[from+len(part):] {
					l.offered = false
				}
				return same(len(part), simFailure("Internal"))
			}
		}
		results := make([]Result, len(part))
		for i := range part {
			results[i].MessageID = b.store(c, from+i)
		}
		return results
	})
}

// close takes a topic away for a while.
func (b *simBroker) close(at *window, d time.Duration) {
	b.w.say("topic %q answers %s for %v", at.topic, at.code, d)
	at.from, b.windows = time.Now(), append(b.windows, at)
	b.w.after(d, func() { b.reopen(at) })
}

func (b *simBroker) reopen(at *window) {
	for i, o := range b.windows {
		if o == at {
			b.w.say("topic %q is back", at.topic)
			b.windows = append(b.windows[:i:i], b.windows[i+1:]...)
			return
		}
	}
}

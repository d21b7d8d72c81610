package consume

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Claim is the lease on one event, from Begin to Done or Abort. One goroutine
// owns it, except that Extend may run beside the handler.
type Claim struct {
	g     *Guard
	key   string
	token string
	lease string    // the exact value in Redis while the lease is ours
	mark  string    // the value Done writes, fixed by its first call
	asked time.Time // when Begin asked: Redis counts the lease from then or later
}

// Mark is what Done found.
type Mark string

const (
	// Marked is the ordinary case: the lease was ours and became the done mark.
	Marked Mark = "marked"
	// MarkedLate means the lease was gone (expired, flushed) or another
	// delivery's; the mark was written all the same, since the effect happened.
	MarkedLate Mark = "late"
	// AlreadyMarked means another delivery had finished first.
	AlreadyMarked Mark = "already"
)

// Begin takes the lease on the event, for work that does not fit into one
// function call; otherwise use Process. The state it returns decides:
//
//	StateUnknown     the claim is ours: do the work, then Done or Abort
//	StateProcessed   a duplicate: acknowledge it
//	StateProcessing  another delivery is at work: nack
//
// The claim is nil unless the state is StateUnknown. An error means Redis gave
// no answer: nack, do not run.
func (g *Guard) Begin(ctx context.Context, eventID uuid.UUID) (*Claim, State, error) {
	key, err := g.key(eventID)
	if err != nil {
		return nil, "", err
	}
	c := &Claim{g: g, key: key, token: newToken(), asked: time.Now()}
	c.lease = encodeValue(leasePrefix, c.token, g.owner)
	found, err := g.run(ctx, g.scripts.begin, key, c.lease, g.opts.Lease.Milliseconds()).Text()
	if err != nil {
		return nil, "", unavailable("begin event", err)
	}
	if found == "" {
		return c, StateUnknown, nil
	}
	state, _, _ := ParseValue(found)
	return nil, state, nil
}

// Extend prolongs the lease by its full length. False means it is another
// delivery's by now, or the event is done: stop working.
func (c *Claim) Extend(ctx context.Context) (bool, error) {
	held, err := c.g.run(ctx, c.g.scripts.extend, c.key, c.lease, c.g.opts.Lease.Milliseconds()).Int()
	if err != nil {
		return false, unavailable("extend lease", err)
	}
	return held == 1, nil
}

// Done records that the effect happened, for the guard's TTL. After an error
// it may be called again: it recognises a mark it wrote without hearing so.
func (c *Claim) Done(ctx context.Context) (Mark, error) {
	if c.mark == "" {
		c.mark = encodeValue(donePrefix, c.token, c.g.owner)
	}
	found, err := c.g.run(ctx, c.g.scripts.done, c.key, c.lease, c.mark, c.g.opts.TTL.Milliseconds(), leasePrefix).Text()
	if err != nil {
		return "", unavailable("mark event done", err)
	}
	return Mark(found), nil
}

// Abort gives the lease back so that the next delivery can run at once. False
// means there was nothing of ours to give back.
func (c *Claim) Abort(ctx context.Context) (bool, error) {
	n, err := c.g.run(ctx, c.g.scripts.abort, c.key, c.lease).Int()
	if err != nil {
		return false, unavailable("abort event", err)
	}
	return n == 1, nil
}

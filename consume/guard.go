package consume

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// The attributes of every message outboxctl publishes.
const (
	AttrEventID       = wire.AttrEventID
	AttrEventType     = wire.AttrEventType
	AttrAggregateType = wire.AttrAggregateType
	AttrAggregateID   = wire.AttrAggregateID
	AttrCreatedAt     = wire.AttrCreatedAt
)

const (
	// DefaultTTL is how long a processed mark is kept: longer than any
	// redelivery or replay a team is likely to cause.
	DefaultTTL = 720 * time.Hour

	// DefaultLease is how long an event stays taken after its worker died.
	DefaultLease = 30 * time.Second

	// DefaultTimeout bounds each call to Redis, retries included.
	DefaultTimeout = 2 * time.Second

	// DefaultHold is how long Handle keeps a message while Redis gives no answer.
	// The five deliveries of Pub/Sub's smallest dead-letter policy last for
	// 5 × 150s = 12.5 minutes of outage, ten deliveries for 25. The client
	// extends the ack deadline meanwhile (for 60 minutes by default).
	DefaultHold = 150 * time.Second

	// MinLease keeps three extensions per lease from flooding Redis.
	MinLease = 100 * time.Millisecond

	// Handle's pauses double from minPause to maxPause.
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// Message is the part of a broker's message that Handle settles. The messages
// of cloud.google.com/go/pubsub satisfy it.
type Message interface {
	Ack()
	Nack()
}

// Options of a Guard. The zero value means the defaults.
type Options struct {
	// TTL is how long an event is remembered (default DefaultTTL). It must
	// outlast every redelivery and replay, or an old event runs again.
	TTL time.Duration
	// Lease is how long an event stays taken after its worker died (default
	// DefaultLease). It is extended while the handler runs.
	Lease time.Duration
	// Timeout bounds each call to Redis (default DefaultTimeout).
	Timeout time.Duration
	// Hold is how long Handle keeps a message while Redis gives no answer, before
	// it nacks (default DefaultHold). With a broker that does not extend the time
	// a message may be kept, stay below that time.
	Hold time.Duration
}

func (o Options) withDefaults() (Options, error) {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Hold = cmp.Or(o.Hold, DefaultHold)
	var errs []error
	if o.Lease < MinLease {
		errs = append(errs, fmt.Errorf("lease %s is shorter than %s", o.Lease, MinLease))
	}
	if o.TTL < o.Lease {
		errs = append(errs, fmt.Errorf("ttl %s is shorter than the lease %s", o.TTL, o.Lease))
	}
	if o.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %s is negative", o.Timeout))
	}
	if o.Hold < 0 {
		errs = append(errs, fmt.Errorf("hold %s is negative", o.Hold))
	}
	return o, errors.Join(errs...)
}

// Guard runs handlers once per event for one consumer. It is safe for concurrent use.
type Guard struct {
	server
	consumer string
	opts     Options
	owner    string // written into the keys for operators to read
	calls    gather[*call]
}

// New returns the guard of the consumer with that name. Two consumers that
// should both see an event need two names; the instances of one share one. The
// client stays the caller's to close. New does not talk to Redis; Check does.
func New(rdb redis.UniversalClient, consumer string, opts Options) (*Guard, error) {
	if rdb == nil {
		return nil, errors.New("redis client is nil")
	}
	if err := ValidateConsumer(consumer); err != nil {
		return nil, err
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	owner := hostname() + "/" + strconv.Itoa(os.Getpid())
	g := &Guard{server: newServer(rdb, opts.Timeout), consumer: consumer, opts: opts, owner: owner}
	g.calls = gather[*call]{size: callsTogether, lanes: callLanes, do: g.runAll}
	return g, nil
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return strings.ToValidUTF8(host, "")
}

// Consumer returns the consumer's name.
func (g *Guard) Consumer() string { return g.consumer }

// Lease returns how long an event stays taken after its worker died.
func (g *Guard) Lease() time.Duration { return g.opts.Lease }

// Check asks the server whether the guard can work on it, and announces the consumer. Call it at
// start. The warnings are worth a log line: settings under which Redis may forget.
func (g *Guard) Check(ctx context.Context) (warnings []string, err error) {
	report, err := g.check(ctx)
	if err != nil {
		return nil, err
	}
	return report.Warnings, g.Announce(ctx)
}

// Announce makes the consumer's name known to operators. It is also a cheap way
// to ask whether Redis takes writes, which an answered ping does not prove.
func (g *Guard) Announce(ctx context.Context) error {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	member := redis.Z{Score: float64(time.Now().UnixMilli()), Member: g.consumer}
	if err := g.rdb.ZAdd(ctx, ConsumersKey, member).Err(); err != nil {
		return unavailable("announce consumer", err)
	}
	return nil
}

// Handle is Process followed by the message's Ack or Nack. Two answers are worth waiting for, and a
// message nacked instead would be delivered again at once, until its dead-letter policy takes it:
// another delivery of the event may be at work, which is known after a lease at the latest, and
// Redis may be away, for which the message is held up to Options.Hold. Meanwhile Handle asks again
// with growing pauses. Cancelling ctx ends the wait with a nack.
func (g *Guard) Handle(ctx context.Context, msg Message, eventID string, handler func(context.Context) error) (Outcome, error) {
	outcome, err := g.patiently(ctx, func() (Outcome, error) { return g.Process(ctx, eventID, handler) })
	if outcome.Ack() {
		msg.Ack()
	} else {
		msg.Nack()
	}
	return outcome, err
}

// patiently tries again while another answer may come, as Handle says.
func (g *Guard) patiently(ctx context.Context, try func() (Outcome, error)) (Outcome, error) {
	began := time.Now()
	pause := wire.Backoff{Min: minPause, Max: maxPause}
	for failed := 1; ; failed++ {
		outcome, err := try()
		// Half of the pause is random: messages held together should not ask together.
		if outcome.Ack() || time.Since(began) >= g.patience(outcome) || !sleep(ctx, pause.Jittered(failed, rand.Float64())) {
			return outcome, err
		}
	}
}

// patience is how long Handle keeps a message with that outcome.
func (g *Guard) patience(outcome Outcome) time.Duration {
	switch outcome {
	case InProgress:
		return g.opts.Lease
	case Unavailable:
		return g.opts.Hold
	default:
		return 0 // the subscription's retry policy sets the pace of failed handlers
	}
}

// sleep waits for d and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// CheckAndMarkProcessed marks the event as processed and reports whether it was marked before. It
// marks before the effect: a caller whose effect then fails must Delete the mark, and a crash in
// between loses the event until the mark expires. Prefer Process.
//
// While another delivery holds the event's lease the answer is ErrInProgress.
func (g *Guard) CheckAndMarkProcessed(ctx context.Context, eventID uuid.UUID, ttl time.Duration) (alreadyProcessed bool, err error) {
	key, err := g.key(eventID)
	if err != nil {
		return false, err
	}
	if ttl < time.Millisecond {
		return false, fmt.Errorf("%w, not %s", ErrTTL, ttl)
	}
	mark := encodeValue(donePrefix, newToken(), g.owner)
	found, err := g.run(ctx, g.scripts.mark, key, mark, ttl.Milliseconds()).Text()
	if err != nil {
		return false, unavailable("mark event", err)
	}
	if found == "" {
		return false, nil
	}
	if state, _, _ := ParseValue(found); state == StateProcessing {
		return false, ErrInProgress
	}
	return true, nil
}

// Delete forgets the event, so that its next delivery is handled again.
func (g *Guard) Delete(ctx context.Context, eventID uuid.UUID) error {
	key, err := g.key(eventID)
	if err != nil {
		return err
	}
	ctx, cancel := g.bound(ctx)
	defer cancel()
	if err := g.rdb.Del(ctx, key).Err(); err != nil {
		return unavailable("delete key", err)
	}
	return nil
}

// key returns the event's key. The nil id is refused: every event without an id would share it.
func (g *Guard) key(eventID uuid.UUID) (string, error) {
	if eventID == uuid.Nil {
		return "", fmt.Errorf("%w: the nil uuid", ErrEventID)
	}
	return Key(g.consumer, eventID), nil
}

// newToken identifies one call. Read never returns an error.
func newToken() string {
	var b [16]byte
	_, _ = cryptorand.Read(b[:])
	return hex.EncodeToString(b[:])
}

package idem

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	// DefaultTTL is how long a done mark is kept: longer than any redelivery or
	// replay a team is likely to cause.
	DefaultTTL = 720 * time.Hour

	// DefaultLease is how long an event stays taken after its worker died.
	DefaultLease = 30 * time.Second

	// DefaultTimeout bounds each call to Redis, retries included.
	DefaultTimeout = 2 * time.Second

	// MinLease keeps three extensions inside one lease from becoming a storm.
	MinLease = 100 * time.Millisecond
)

// Config of a Keeper. The zero value means the defaults.
type Config struct {
	// TTL of the done mark (default DefaultTTL).
	TTL time.Duration
	// Lease taken by Begin (default DefaultLease).
	Lease time.Duration
	// Timeout of one call to Redis (default DefaultTimeout).
	Timeout time.Duration
	// Owner is written into the keys for operators to read (default host/pid).
	Owner string
	// Now is the clock behind the timestamps in the values (default time.Now).
	// No decision depends on it.
	Now func() time.Time
}

func (c Config) withDefaults() (Config, error) {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Owner = host + "/" + strconv.Itoa(os.Getpid())
	}
	c.Owner = strings.ToValidUTF8(c.Owner, "")
	var errs []error
	if c.Lease < MinLease {
		errs = append(errs, fmt.Errorf("lease %s is shorter than %s", c.Lease, MinLease))
	}
	if c.TTL < c.Lease {
		errs = append(errs, fmt.Errorf("ttl %s is shorter than the lease %s", c.TTL, c.Lease))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %s is negative", c.Timeout))
	}
	return c, errors.Join(errs...)
}

// Keeper answers whether an event was processed, and remembers that it was.
// It is safe for concurrent use.
type Keeper struct {
	rdb     redis.UniversalClient
	cfg     Config
	scripts scripts
}

// New returns a keeper on rdb, which stays the caller's to close. It does not
// talk to the server; Check does.
func New(rdb redis.UniversalClient, cfg Config) (*Keeper, error) {
	if rdb == nil {
		return nil, errors.New("redis client is nil")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Keeper{rdb: rdb, cfg: cfg, scripts: newScripts()}, nil
}

// Lease is how long an event stays taken after its worker died.
func (k *Keeper) Lease() time.Duration { return k.cfg.Lease }

// TTL is how long the keeper's done marks live.
func (k *Keeper) TTL() time.Duration { return k.cfg.TTL }

// CheckAndMarkProcessed marks the event as processed by consumer and reports
// whether it was marked before. It marks before the effect: a caller whose
// effect then fails must Delete the mark, and a crash in between loses the
// event until the mark expires. Handlers should use Begin, or Process.
//
// While another delivery holds the event's lease the answer is ErrInProgress.
func (k *Keeper) CheckAndMarkProcessed(ctx context.Context, consumer string, eventID uuid.UUID, ttl time.Duration) (alreadyProcessed bool, err error) {
	key, err := checkedKey(consumer, eventID)
	if err != nil {
		return false, err
	}
	if ttl < time.Millisecond {
		return false, fmt.Errorf("%w, not %s", ErrTTL, ttl)
	}
	mark := encodeValue(donePrefix, newToken(), k.cfg.Now(), k.cfg.Owner)
	found, err := k.run(ctx, k.scripts.mark, key, mark, ttl.Milliseconds()).Text()
	if err != nil {
		return false, unavailable("mark event", err)
	}
	if found == "" {
		return false, nil
	}
	if state, _, _ := decodeValue(found); state == StateProcessing {
		return false, ErrInProgress
	}
	return true, nil
}

// Delete removes whatever is known about the event, so that its next delivery
// is processed again.
func (k *Keeper) Delete(ctx context.Context, consumer string, eventID uuid.UUID) error {
	key, err := checkedKey(consumer, eventID)
	if err != nil {
		return err
	}
	ctx, cancel := k.bound(ctx)
	defer cancel()
	if err := k.rdb.Del(ctx, key).Err(); err != nil {
		return unavailable("delete key", err)
	}
	return nil
}

func (k *Keeper) run(ctx context.Context, script *redis.Script, key string, args ...any) *redis.Cmd {
	ctx, cancel := k.bound(ctx)
	defer cancel()
	return script.Run(ctx, k.rdb, []string{key}, args...)
}

func (k *Keeper) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, k.cfg.Timeout)
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}

// newToken identifies one call. crypto/rand.Read never returns an error.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

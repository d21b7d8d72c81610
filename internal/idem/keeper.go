package idem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/outboxctl/outboxctl/consume"
)

// lookupChunk bounds one pipeline, so that asking about a hundred thousand
// events neither fills a buffer nor holds the server.
const lookupChunk = 500

// Keeper reads and deletes the keys of all consumers. It is safe for concurrent use.
type Keeper struct {
	rdb    redis.UniversalClient
	ttl    time.Duration
	forget *redis.Script
}

// New returns a keeper on rdb, which stays the caller's to close. ttl is the
// consumers' time to live: a consumer silent for longer has no key left.
func New(rdb redis.UniversalClient, ttl time.Duration) *Keeper {
	return &Keeper{rdb: rdb, ttl: ttl, forget: redis.NewScript(forgetScript)}
}

// Entry is what Redis knows about one consumer and event.
type Entry struct {
	Consumer string
	EventID  uuid.UUID
	State    consume.State
	// Since is when the state was entered, by the worker's clock. Zero when the
	// key was written by another program.
	Since time.Time
	// Owner names the worker that wrote the key.
	Owner string
	// ExpiresIn is the rest of the lease or of the done mark; negative when the key never expires.
	ExpiresIn time.Duration

	raw string
}

// Lookup reads what Redis knows about one consumer and event. It changes nothing.
func (k *Keeper) Lookup(ctx context.Context, consumer string, eventID uuid.UUID) (Entry, error) {
	entries, err := k.LookupMany(ctx, []string{consumer}, []uuid.UUID{eventID})
	if err != nil {
		return Entry{}, err
	}
	return entries[0], nil
}

// LookupMany reads every pair of consumer and event, events outermost, in a
// pipeline: a few round trips however many there are.
func (k *Keeper) LookupMany(ctx context.Context, consumers []string,
	eventIDs []uuid.UUID) ([]Entry, error) {
	for _, name := range consumers {
		if err := consume.ValidateConsumer(name); err != nil {
			return nil, err
		}
	}
	entries := make([]Entry, 0, len(consumers)*len(eventIDs))
	for _, id := range eventIDs {
		for _, name := range consumers {
			entries = append(entries, Entry{Consumer: name, EventID: id, State: consume.StateUnknown})
		}
	}
	for chunk := range slices.Chunk(entries, lookupChunk) {
		if err := k.read(ctx, chunk); err != nil {
			return nil, unavailable("look up events", err)
		}
	}
	return entries, nil
}

func (k *Keeper) read(ctx context.Context, chunk []Entry) error {
	ctx, cancel := context.WithTimeout(ctx, consume.DefaultTimeout)
	defer cancel()
	values := make([]*redis.StringCmd, len(chunk))
	ttls := make([]*redis.DurationCmd, len(chunk))
	_, err := k.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, e := range chunk {
			key := consume.Key(e.Consumer, e.EventID)
			values[i] = p.Get(ctx, key)
			ttls[i] = p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i := range chunk {
		raw, err := values[i].Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return err
		}
		e := &chunk[i]
		e.raw = raw
		e.State, e.Since, e.Owner = consume.ParseValue(raw)
		if e.ExpiresIn, err = ttls[i].Result(); err != nil {
			return err
		}
	}
	return nil
}

// forgetScript deletes the key only while it holds the value the operator was
// shown, so that a lease taken since is not deleted unseen.
// KEYS key; ARGV value.
const forgetScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`

// Forget deletes the key an Entry was read from, and reports whether it did.
// A key that changed since, because a handler has taken it, is left alone.
func (k *Keeper) Forget(ctx context.Context, e Entry) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, consume.DefaultTimeout)
	defer cancel()
	n, err := k.forget.Run(ctx, k.rdb, []string{consume.Key(e.Consumer, e.EventID)}, e.raw).Int()
	if err != nil {
		return false, unavailable("forget event", err)
	}
	return n == 1, nil
}

// Consumers lists the names that announced themselves within the time to live, sorted.
func (k *Keeper) Consumers(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, consume.DefaultTimeout)
	defer cancel()
	found, err := k.rdb.ZRangeWithScores(ctx, consume.ConsumersKey, 0, -1).Result()
	if err != nil {
		return nil, unavailable("list consumers", err)
	}
	oldest := time.Now().Add(-k.ttl)
	var names []string
	for _, z := range found {
		name, isString := z.Member.(string)
		if isString && time.UnixMilli(int64(z.Score)).After(oldest) &&
			consume.ValidateConsumer(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, consume.ErrUnavailable, err)
}

package idem

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// lookupChunk bounds one pipeline, so that asking about a hundred thousand
// events neither fills a buffer nor holds the server.
const lookupChunk = 500

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
func (k *Keeper) LookupMany(ctx context.Context, consumers []string, eventIDs []uuid.UUID) ([]Entry, error) {
	entries := make([]Entry, 0, len(consumers)*len(eventIDs))
	for _, id := range eventIDs {
		for _, consumer := range consumers {
			if _, err := checkedKey(consumer, id); err != nil {
				return nil, err
			}
			entries = append(entries, Entry{Consumer: consumer, EventID: id, State: StateUnknown})
		}
	}
	for start := 0; start < len(entries); start += lookupChunk {
		chunk := entries[start:min(start+lookupChunk, len(entries))]
		if err := k.lookupChunk(ctx, chunk); err != nil {
			return nil, unavailable("look up events", err)
		}
	}
	return entries, nil
}

func (k *Keeper) lookupChunk(ctx context.Context, chunk []Entry) error {
	ctx, cancel := k.bound(ctx)
	defer cancel()
	values := make([]*redis.StringCmd, len(chunk))
	ttls := make([]*redis.DurationCmd, len(chunk))
	_, err := k.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, e := range chunk {
			key := Key(e.Consumer, e.EventID)
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
		e.State, e.Since, e.Owner = decodeValue(raw)
		if e.ExpiresIn, err = ttls[i].Result(); err != nil {
			return err
		}
	}
	return nil
}

// Forget deletes the key an Entry was read from, and reports whether it did.
// A key that changed since, say because a handler has taken it, is left alone.
func (k *Keeper) Forget(ctx context.Context, e Entry) (bool, error) {
	key, err := checkedKey(e.Consumer, e.EventID)
	if err != nil {
		return false, err
	}
	n, err := k.run(ctx, k.scripts.forget, key, e.raw).Int()
	if err != nil {
		return false, unavailable("forget event", err)
	}
	return n == 1, nil
}

// Announce records that consumer exists, for Consumers to find.
func (k *Keeper) Announce(ctx context.Context, consumer string) error {
	if err := ValidateConsumer(consumer); err != nil {
		return err
	}
	ctx, cancel := k.bound(ctx)
	defer cancel()
	member := redis.Z{Score: float64(k.cfg.Now().UnixMilli()), Member: consumer}
	if err := k.rdb.ZAdd(ctx, consumersKey, member).Err(); err != nil {
		return unavailable("announce consumer", err)
	}
	return nil
}

// Consumers lists the names that announced themselves within the keeper's TTL,
// sorted. A consumer silent for longer has no mark left to ask about.
func (k *Keeper) Consumers(ctx context.Context) ([]string, error) {
	ctx, cancel := k.bound(ctx)
	defer cancel()
	found, err := k.rdb.ZRangeWithScores(ctx, consumersKey, 0, -1).Result()
	if err != nil {
		return nil, unavailable("list consumers", err)
	}
	oldest := k.cfg.Now().Add(-k.cfg.TTL)
	var names []string
	for _, z := range found {
		name, isString := z.Member.(string)
		if isString && time.UnixMilli(int64(z.Score)).After(oldest) && ValidateConsumer(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

package dispatch

import (
	"context"
	"sync"
	"time"
)

// inFlightLimit counts rows and payload bytes between claim and settle, in total
// and per topic, and makes claims wait while there are too many.
//
// It is narrowed while publishers keep dying and rows have few attempts left.
// A publisher that dies costs every row it holds an attempt. One that holds
// thousands and is killed again and again, by its platform or by one of those
// rows, would send all of them to the dead letters.
type inFlightLimit struct {
	maxRows  int
	maxBytes int64
	// narrowest is the lowest bound that narrow sets.
	narrowest int

	mu      sync.Mutex
	rows    int
	bytes   int64
	byTopic map[string]room
	// passedOver are the topics that claims have left out because they were
	// crowded, while they took rows of others behind them.
	passedOver map[string]bool
	freed      chan struct{}
	// narrowed is the bound in place of maxRows until wide.
	narrowed int
	wide     time.Time
}

// room is a number of rows and the bytes that they hold.
type room struct {
	rows  int
	bytes int64
}

func newInFlightLimit(maxRows int, maxBytes int64, narrowest int) *inFlightLimit {
	return &inFlightLimit{
		maxRows: maxRows, maxBytes: maxBytes, narrowest: min(narrowest, maxRows),
		byTopic: map[string]room{}, passedOver: map[string]bool{},
		freed: make(chan struct{}),
	}
}

// share is the most one claim may take of the limit: an eighth. A topic is
// crowded at a half, so claims that were already running when it became so
// still leave room for the others.
func share[N int | int64](whole N) N { return max(whole/8, 1) }

// reserve waits for room and takes up to want rows, and bytes to go with them.
func (f *inFlightLimit) reserve(ctx context.Context, want int) (room, error) {
	for {
		f.mu.Lock()
		bound := f.boundLocked()
		r := room{min(want, bound-f.rows, share(bound)), min(f.maxBytes-f.bytes, share(f.maxBytes))}
		if r.rows > 0 && r.bytes > 0 {
			f.rows += r.rows
			f.bytes += r.bytes
			f.mu.Unlock()
			return r, nil
		}
		freed := f.freed
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return room{}, ctx.Err()
		case <-freed:
		}
	}
}

// adjust replaces what a claim reserved by what it got.
func (f *inFlightLimit) adjust(r room, rows []Claimed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(room{len(rows) - r.rows, heldBytes(rows) - r.bytes})
}

// start counts a group under its topic.
func (f *inFlightLimit) start(g *group) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.byTopic[g.topic]
	f.byTopic[g.topic] = room{t.rows + len(g.rows), t.bytes + g.bytes}
}

// end removes a group that was settled. It reports whether its topic has room
// again after it was passed over.
func (f *inFlightLimit) end(g *group) (roomAgain bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.byTopic[g.topic]
	f.byTopic[g.topic] = room{t.rows - len(g.rows), t.bytes - g.bytes}
	f.addLocked(room{-len(g.rows), -g.bytes})
	if !f.passedOver[g.topic] || f.crowdedLocked(g.topic) {
		return false
	}
	delete(f.passedOver, g.topic)
	return true
}

// passOver records that a claim took rows and left out crowded topics.
func (f *inFlightLimit) passOver(topics []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, topic := range topics {
		f.passedOver[topic] = true
	}
}

func (f *inFlightLimit) addLocked(r room) {
	f.rows += r.rows
	f.bytes += r.bytes
	if r.rows < 0 || r.bytes < 0 {
		close(f.freed)
		f.freed = make(chan struct{})
	}
}

// crowded reports whether topic holds so much of the limit that claiming more
// of it would leave no room for the others.
func (f *inFlightLimit) crowded(topic string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crowdedLocked(topic)
}

func (f *inFlightLimit) crowdedLocked(topic string) bool {
	t := f.byTopic[topic]
	return t.rows > f.boundLocked()/2 || t.bytes > f.maxBytes/2
}

// narrow halves the bound so many times, for the time given. The closer a row
// whose publishers die is to its end, the fewer others are lost with it.
func (f *inFlightLimit) narrow(times int, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	bound := max(f.maxRows>>min(times, 30), f.narrowest)
	f.narrowed, f.wide = min(bound, f.boundLocked()), until
}

func (f *inFlightLimit) boundLocked() int {
	if time.Now().Before(f.wide) {
		return f.narrowed
	}
	return f.maxRows
}

func (f *inFlightLimit) load() (rows int, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rows, f.bytes
}

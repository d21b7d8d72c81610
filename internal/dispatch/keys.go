package dispatch

import (
	"slices"
	"sync"
)

const (
	// lookKeys is how many keys a claim looks at because they were just settled.
	lookKeys = 1000
	// busyKeys is how many keys a claim is told to leave out.
	busyKeys = 1000
)

// keyState is what the ordered stream knows of ordering keys.
type keyState struct {
	mu sync.Mutex
	// busy are keys that are being sent and have more behind: their rows would
	// fill the next claim's window.
	busy map[string]bool
	// look are keys that were settled while claims keep to the hint: what follows
	// in them may lie below it.
	look []string
}

// sending records the groups that have as many rows of their key as a claim may take,
// and reports whether there are any.
func (k *keyState) sending(groups []*group, most int) (cut bool) {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range groups {
		if len(g.rows) < most {
			continue
		}
		cut = true
		if len(k.busy) < busyKeys {
			k.busy[g.key] = true
		}
	}
	return cut
}

// settled records that a key has nothing under way any more, and whether claims should
// look at it.
func (k *keyState) settled(key string, look bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.busy, key)
	if look {
		k.look = append(k.look, key)
	}
}

// hints returns the keys that a claim leaves out and those that it looks at.
func (k *keyState) hints() (busy, look []string) {
	if k == nil {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.busy {
		busy = append(busy, key)
	}
	slices.Sort(busy)
	n := min(len(k.look), lookKeys)
	look = slices.Compact(slices.Sorted(slices.Values(k.look[:n])))
	k.look = slices.Delete(k.look, 0, n)
	return busy, look
}

// looks reports whether there are keys to look at.
func (k *keyState) looks() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.look) > 0
}

package consume

import "sync"

// gather has items done together that come while earlier ones are under way. None waits for company: one that comes alone
// is done alone, and the busier the program, the larger its groups.
type gather[T any] struct {
	size  int // of a group at most
	lanes int // groups under way at once
	do    func([]T)

	mu      sync.Mutex
	waiting []T // guarded by mu
	busy    int // lanes at work; guarded by mu
}

// add has the item done soon. Its do must tell the caller when.
func (g *gather[T]) add(item T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, item)
	if g.busy < g.lanes {
		g.busy++
		go func() {
			for group := g.take(); group != nil; group = g.take() {
				g.do(group)
			}
		}()
	}
}

// take returns the next group; nil ends the lane.
func (g *gather[T]) take() []T {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.waiting = nil
		g.busy--
		return nil
	}
	n := min(g.size, len(g.waiting))
	group := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	return group
}

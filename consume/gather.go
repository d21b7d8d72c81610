package consume

import "sync"

// gather has items done together that come while earlier ones are under way. None waits for
// company: one that comes alone is done alone, and the busier the program, the larger its groups. A
// second group beside the first pays only when it is large, a quarter of size: small groups cost as
// much as large ones.
type gather[T any] struct {
	size  int // of a group at most
	lanes int // groups under way at once, at most
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
	if g.busy == 0 || g.busy < g.lanes && len(g.waiting) >= g.size/4 {
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
	if len(g.waiting) == 0 || g.busy > 1 && len(g.waiting) < g.size/4 {
		g.busy-- // what waits is the other lane's
		return nil
	}
	n := min(g.size, len(g.waiting))
	group := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	return group
}

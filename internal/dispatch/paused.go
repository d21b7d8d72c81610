package dispatch

// paused lists what operators have paused, as claims leave it out. A row that is left out keeps its place in its ordering
// key, so what follows it waits too.
func (d *Dispatcher) paused() (texts []string) {
	for _, p := range d.cfg.Paused() {
		texts = append(texts, p.Texts(d.cfg.Names)...)
	}
	return texts
}

// LookAgain makes the next claims look at everything that waits: a pause has ended, and what it held back is behind the
// hint.
func (d *Dispatcher) LookAgain() { d.rewind() }

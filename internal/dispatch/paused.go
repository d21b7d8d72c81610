package dispatch

import "github.com/outboxctl/outboxctl/internal/outbox"

// paused lists what operators have paused as claims leave it out: event types, a namespace and a blank, a blank and a
// tenant. A row that is left out keeps its place in its ordering key, so what follows it waits too.
func (d *Dispatcher) paused() (texts []string) {
	for _, p := range d.cfg.Paused() {
		switch p.Kind {
		case outbox.PauseTopic:
			texts = append(texts, d.breakers.typesOf(p.Value)...)
		case outbox.PauseNamespace:
			texts = append(texts, p.Value+" ")
		case outbox.PauseTenant:
			texts = append(texts, " "+p.Value)
		default:
			texts = append(texts, p.Value)
		}
	}
	return texts
}

// LookAgain makes the next claims look at everything that waits: a pause has ended, and what it held back is behind the
// hint.
func (d *Dispatcher) LookAgain() { d.rewind() }

package check

import "github.com/outboxctl/outboxctl/lab/history"

// The states of a dead letter. An operator who discards one gives up on it: the failure stays
// terminal.
const (
	letterOpen      = "open"
	letterDiscarded = "discarded"
)

// letters is I7.
func (c *checker) letters(e *event) {
	row := e.row()
	dead := row != nil && !row.State.Dead.IsZero()
	terminal := e.committed() && e.expect() == history.Die
	if len(e.letters) == 0 && !dead && !terminal {
		return
	}
	c.checked("I7")
	standing := 0
	for _, l := range e.letters {
		if l.State == letterOpen || l.State == letterDiscarded {
			standing++
		}
		if l.Reason == "max_attempts" {
			c.violate("I7", e.id, "died of attempts, at %s after %d (%s): an outage must not kill events",
				clock(l.FailedAt), l.Attempts, l.Error)
			return
		}
		if row != nil && l.Payload != row.Payload {
			c.violate("I7", e.id, "its dead letter %s does not hold the payload of its row", l.ID)
			return
		}
	}
	switch {
	case terminal && standing == 0 && len(e.letters) > 0:
		c.violate("I7", e.id, "cannot be published, but all its %d dead letters are replayed (%s)",
			len(e.letters), describe(row))
	case terminal && standing == 0:
		c.violate("I7", e.id, "cannot be published, but has no dead letter (%s)", describe(row))
	case standing > 1:
		c.violate("I7", e.id, "has %d dead letters that are open or discarded", standing)
	case !terminal && standing > 0:
		c.violate("I7", e.id, "should have been published, but has a dead letter: %s",
			e.letters[len(e.letters)-1].Reason)
	case dead && standing == 0:
		c.violate("I7", e.id, "its row is dead, but no dead letter is open (of %d)", len(e.letters))
	case standing > 0 && !dead:
		c.violate("I7", e.id, "has an open dead letter, but %s", describe(row))
	}
}

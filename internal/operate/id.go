package operate

import (
	"strings"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// ParseID reads the id of an event or of a dead letter as a person gives it: a UUID of 36 characters in any case, with or
// without white space around it. It returns the canonical form. The nil UUID is refused: no event has it, so it can only
// be a variable that was not set.
func ParseID(text string) (string, error) {
	id, err := wire.ParseID(strings.TrimSpace(text))
	if err != nil {
		return "", fault.Hint(fault.Usagef("%q is not an id: an id looks like 01890a5d-ac96-774b-bcce-b302099a8057", text),
			"outboxctl event list and outboxctl dlq list show the ids")
	}
	return id.String(), nil
}

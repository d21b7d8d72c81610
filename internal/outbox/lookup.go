package outbox

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// keySearch is how many published events are looked at for one with an id of the broker's.
const keySearch = 100_000

// EventOfKey finds an event by its dedupe key or, among the newest published events, by the id that the broker gave it.
func (o *Outbox) EventOfKey(ctx context.Context, key string) (id string, err error) {
	nothing := fault.NotFoundf("no event has the dedupe key %q, and none of the newest %s published events has it as the broker's id", safetext.Cut(safetext.Line(key), 60), words.Count(keySearch))
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return "", nothing
	}
	id, err = o.Events().ByKey(ctx, key, keySearch)
	if errors.Is(err, ErrNotFound) {
		return "", nothing
	}
	return id, err
}

// Event reads an event's row; nil when there is none.
func (o *Outbox) Event(ctx context.Context, id string) (*Event, error) {
	event, err := o.Events().Event(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	default:
		return &event, nil
	}
}

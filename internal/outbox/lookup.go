package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// keySearch is how many published events are looked at for one with an id of the broker's.
const keySearch = 100_000

// EventOfKey finds an event by its dedupe key, the newest if there are several, or among the newest published events by
// the id that the broker gave it.
func (o *Outbox) EventOfKey(ctx context.Context, key string) (id string, err error) {
	err = pgx.ErrNoRows
	if utf8.ValidString(key) && !strings.ContainsRune(key, 0) {
		err = o.DB.QueryRow(ctx, selectByDedupeKey, key).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			err = o.DB.QueryRow(ctx, selectByBrokerID, key, keySearch).Scan(&id)
		}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", fault.NotFoundf("no event has the dedupe key %q, and none of the newest %s published events has it as the broker's id",
			safetext.Cut(safetext.Line(key), 60), words.Count(keySearch))
	case err != nil:
		return "", fmt.Errorf("find the event of a key: %w", err)
	}
	return id, nil
}

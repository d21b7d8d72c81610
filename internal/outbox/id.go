package outbox

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/fault"
)

const (
	idShape  = "00000000-0000-0000-0000-000000000000"
	IDLength = len(idShape)
	// LeastShortID is how many characters of an id tell enough of it.
	LeastShortID = 8
	// NamedCandidates is how many ids an ambiguous beginning names.
	NamedCandidates = 5
)

// ParseID reads the id of an event or of a dead letter as a person gives it: a UUID of 36
// characters in any case, with or without white space around it, or its beginning, of eight
// characters or more. It returns the canonical form. The nil UUID is refused: no event has it, so
// it can only be a variable that was not set.
func ParseID(text string) (string, error) {
	trimmed := strings.ToLower(strings.TrimSpace(text))
	if id, err := wire.ParseID(trimmed); err == nil {
		return id.String(), nil
	}
	if _, _, err := IDRange(trimmed); err == nil {
		return trimmed, nil
	}
	return "", fault.Hint(fault.Usagef("%q is not an id: an id looks like 01890a5d-ac96-774b-bcce-b302099a8057, or like its first %d characters or more", text, LeastShortID),
		"outboxctl event list and outboxctl dlq list show the ids")
}

// IDRange is the first and the last id that begin so.
func IDRange(short string) (first, last string, err error) {
	if len(short) < LeastShortID || len(short) >= IDLength {
		return "", "", fmt.Errorf("%d characters", len(short))
	}
	for i, c := range short {
		if (c == '-') != (idShape[i] == '-') {
			return "", "", errors.New("a hyphen out of place")
		}
	}
	digits := strings.ReplaceAll(short, "-", "")
	if _, err := hex.DecodeString(digits + "00"[:2-len(digits)%2]); err != nil {
		return "", "", err
	}
	rest := idShape[len(short):]
	return short + rest, short + strings.ReplaceAll(rest, "0", "f"), nil
}

// Complete returns the id, of an event or of a dead letter, that begins with this; a whole or an
// empty one as it is.
func (o *Outbox) Complete(ctx context.Context, id string) (string, error) {
	if id == "" || len(id) == IDLength {
		return id, nil
	}
	none := fault.Hint(fault.NotFoundf("no event and no dead letter has an id that begins with %s",
		id), "cleanup may have removed it; the whole id tells more")
	return o.CompleteID(ctx, id, candidatesQuery, none)
}

const selectEventID = `SELECT coalesce((SELECT event_id FROM outbox_dlq WHERE id = $1::uuid), $1::uuid)::text`

// EventID returns the id of the event that id means: an event's own, or that of the event behind a
// dead letter.
func (o *Outbox) EventID(ctx context.Context, id string) (string, error) {
	if o.DB == nil && len(id) == IDLength {
		return id, nil
	}
	id, err := o.Complete(ctx, id)
	if err != nil {
		return "", err
	}
	return One[string](ctx, o.DB, "look up event", selectEventID, id)
}

// CompleteAll returns ids with the beginnings among them replaced, each once.
func (o *Outbox) CompleteAll(ctx context.Context, ids []string) ([]string, error) {
	all := make([]string, 0, len(ids))
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		id, err := o.Complete(ctx, id)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			all = append(all, id)
		}
	}
	return all, nil
}

// Both tables answer from their primary keys. A dead letter of an event that is found too is the
// same to every command.
const candidatesQuery = `
SELECT text AS id, what FROM (
    (SELECT id::text AS text, event_type::text || ', an event' AS what FROM outbox_events WHERE id BETWEEN $1::text::uuid AND $2::text::uuid ORDER BY id LIMIT $3)
    UNION ALL
    (SELECT id::text, event_type::text || ', a dead letter, ' || state FROM outbox_dlq WHERE id BETWEEN $1::text::uuid AND $2::text::uuid ORDER BY id LIMIT $3)
) AS found ORDER BY text`

// CompleteID returns the only id that begins so of those that a query finds, or none as the error.
func (o *Outbox) CompleteID(ctx context.Context, short, query string, none error) (string, error) {
	first, last, err := IDRange(short)
	if err != nil {
		return "", fault.Usagef("%q is not the beginning of an id: %w", short, err)
	}
	if o.DB == nil {
		return "", fault.Usagef("%q is the beginning of an id, which only the database can complete", short)
	}
	found, err := Rows[struct{ ID, What string }](ctx, o.DB, "look for the id", query, first, last, NamedCandidates+1)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", none
	case len(found) == 1:
		return found[0].ID, nil
	}
	var names strings.Builder
	for i, c := range found {
		if i == NamedCandidates {
			names.WriteString("\n  and more")
			break
		}
		fmt.Fprintf(&names, "\n  %s %s", c.ID, c.What)
	}
	return "", fault.Usagef("%s is the beginning of several ids:%s", short, names.String())
}

package outbox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// IDLike is what an aggregate's id looks like where ids are UUIDs or integers.
var IDLike = regexp.MustCompile(`^([0-9]+|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$`)

// ParseAggregate reads --aggregate: type/id, /id, an id that looks like one, a UUID or an integer,
// or a word, which is returned as a type; SettleAggregate asks the database whether it is an id.
func ParseAggregate(raw string) (aggregateType string, ids []string, err error) {
	if raw == "" {
		return "", nil, nil
	}
	aggregateType, id, both := strings.Cut(raw, "/")
	switch {
	case !both && !IDLike.MatchString(raw):
		return raw, nil, nil
	case !both:
		aggregateType, id = "", raw
	}
	if id == "" || id == uuid.Nil.String() {
		return "", nil, fmt.Errorf("--aggregate: %q has no id; give type/id, a type, or an id", raw)
	}
	return aggregateType, []string{id}, nil
}

// SettleAggregate turns the aggregate's type of a filter into an id where it is no type that there
// is, and ids can be any text.
func (o *Outbox) SettleAggregate(ctx context.Context, f *Filter) error {
	word := f.AggregateType
	if word == "" || len(f.AggregateIDs) > 0 || slices.Contains(o.Registry.Aggregates(), word) {
		return nil
	}
	isID, err := One[bool](ctx, o.DB, "look for an aggregate", aggregateIsID, word)
	if isID {
		f.AggregateType, f.AggregateIDs = "", []string{word}
	}
	return err
}

// ParseTenants reads the ids of --tenant.
func ParseTenants(raw []string) ([]string, error) {
	var ids []string
	for _, text := range raw {
		id, err := ParseTenant(text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id.String())
	}
	return ids, nil
}

// ParseTenant reads the id of a tenant, by the rule by which events are emitted: a whole UUID in
// its usual form, which is how tenants are compared. It is no id of an event or a dead letter, so
// it cannot be completed from its beginning.
func ParseTenant(text string) (uuid.UUID, error) {
	id, err := wire.ParseID(strings.TrimSpace(text))
	if err != nil {
		return id, fault.Usagef("--tenant: %q is not a UUID", text)
	}
	return id, nil
}

// ParseSpan reads --since and --until, counted from now where they are relative.
func ParseSpan(since, until string, now time.Time) (from, to time.Time, err error) {
	if since != "" {
		if from, err = words.ParseInstant(since, now); err != nil {
			return from, to, fmt.Errorf("--since: %w", err)
		}
	}
	if until != "" {
		if to, err = words.ParseInstant(until, now); err != nil {
			return from, to, fmt.Errorf("--until: %w", err)
		}
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return from, to, errors.New("--since must be before --until")
	}
	return from, to, nil
}

package operate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/common/model"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// ParseDuration reads what people write: 30d, 2w, 12h, 1h30m, 500ms, 1.5s.
func ParseDuration(raw string) (time.Duration, error) {
	if d, err := model.ParseDuration(raw); err == nil {
		return time.Duration(d), nil
	}
	d, err := time.ParseDuration(raw)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 30s, 12h, 30d or 2w", raw)
	}
	return d, nil
}

// ParseInstant reads a point in time as people write it: RFC 3339, a date or a date and time in UTC, or how long ago
// (2h, 30d), counted from now.
func ParseInstant(raw string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, raw); err == nil {
			return t, nil
		}
	}
	if d, err := ParseDuration(raw); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a time (2026-03-01T12:00:00Z), a date (2026-03-01) nor how long ago (2h, 30d)", raw)
}

// idLike is what an aggregate's id looks like where ids are UUIDs or integers.
var idLike = regexp.MustCompile(`^([0-9]+|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$`)

// ParseAggregate reads --aggregate: type/id, /id, an id that looks like one, a UUID or an integer, or a word, which is returned
// as a type; settleAggregate asks the database whether it is an id.
func ParseAggregate(raw string) (aggregateType string, ids []string, err error) {
	if raw == "" {
		return "", nil, nil
	}
	aggregateType, id, both := strings.Cut(raw, "/")
	switch {
	case !both && !idLike.MatchString(raw):
		return raw, nil, nil
	case !both:
		aggregateType, id = "", raw
	}
	if id == "" || id == uuid.Nil.String() {
		return "", nil, fmt.Errorf("--aggregate: %q has no id; give type/id, a type, or an id", raw)
	}
	return aggregateType, []string{id}, nil
}

// settleAggregate turns the type of a filter into an id where it is no type that there is, and ids can be any text.
func (o *Outbox) settleAggregate(ctx context.Context, aggregateType *string, ids *[]string) error {
	return StoreError(o.settleAggregateBy(ctx, o.events(), aggregateType, ids))
}

func (o *Outbox) settleAggregateBy(ctx context.Context, events *outbox.Store, aggregateType *string, ids *[]string) error {
	word := *aggregateType
	if word == "" || len(*ids) > 0 || slices.Contains(o.Registry.Aggregates(), word) {
		return nil
	}
	isID, err := events.AggregateIsID(ctx, word)
	if isID {
		*aggregateType, *ids = "", []string{word}
	}
	return err
}

// ParseBasePath reads the prefix of a page's addresses and returns it without the slash at its end.
func ParseBasePath(raw string) (string, error) {
	base := strings.TrimRight(raw, "/")
	if base != "" && (!strings.HasPrefix(base, "/") || strings.ContainsAny(base, "{}?#%")) {
		return "", fmt.Errorf("%q is not a path such as /ops/outbox", raw)
	}
	return base, nil
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

// ParseTenant reads the id of a tenant, by the rule by which events are emitted: a whole UUID in its usual form, which is how
// tenants are compared. It is no id of an event or a dead letter, so it cannot be completed from its beginning.
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
		if from, err = ParseInstant(since, now); err != nil {
			return from, to, fmt.Errorf("--since: %w", err)
		}
	}
	if until != "" {
		if to, err = ParseInstant(until, now); err != nil {
			return from, to, fmt.Errorf("--until: %w", err)
		}
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return from, to, errors.New("--since must be before --until")
	}
	return from, to, nil
}

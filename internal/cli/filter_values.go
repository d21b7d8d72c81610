package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// ParseAggregate reads --aggregate: an id, a type, or type/id.
func ParseAggregate(raw string) (aggregateType string, ids []string, err error) {
	if raw == "" {
		return "", nil, nil
	}
	aggregateType, text, both := strings.Cut(raw, "/")
	if !both {
		if id, err := wholeID(raw); err == nil {
			return "", []string{id}, nil
		}
		return raw, nil, nil
	}
	id, err := wholeID(text)
	if err != nil || aggregateType == "" {
		return "", nil, fmt.Errorf("--aggregate: %q is neither an id, a type nor type/id", raw)
	}
	return aggregateType, []string{id}, nil
}

// ParseTenants reads the ids of --tenant.
func ParseTenants(raw []string) ([]string, error) {
	var ids []string
	for _, text := range raw {
		id, err := wholeID(text)
		if err != nil {
			return nil, fmt.Errorf("--tenant: %q is not an id", text)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// wholeID reads an id that is not one of an event or a dead letter, and so cannot be completed from its beginning.
func wholeID(text string) (string, error) {
	id, err := wire.ParseID(strings.TrimSpace(text))
	return id.String(), err
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

package dlq

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CorrectsHeader is the header, and so the message attribute, by which a
// corrected event names the one it stands for.
const CorrectsHeader = "corrects"

// Export is one dead letter in the form in which events are emitted: a new
// event with the old one's content, ready to be edited.
type Export struct {
	Type          string            `json:"type"`
	AggregateType string            `json:"aggregateType"`
	AggregateID   string            `json:"aggregateId"`
	Data          json.RawMessage   `json:"data"`
	DedupeKey     string            `json:"dedupeKey"`
	TenantID      *string           `json:"tenantId,omitempty"`
	Namespace     string            `json:"namespace"`
	Headers       map[string]string `json:"headers"`
	OccurredAt    json.RawMessage   `json:"occurredAt,omitempty"`
	Actor         json.RawMessage   `json:"actor,omitempty"`
}

// Export reads dead letters in the order of the targets. Those that are gone
// are left out.
func (s *Store) Export(ctx context.Context, targets []Target) ([]Export, error) {
	ids := make([]string, 0, len(targets))
	for _, t := range targets {
		if t.ID != "" {
			ids = append(ids, t.ID)
		}
	}
	exports, err := collect(ctx, s.db, scanExport, selectExport, ids)
	if err != nil {
		return nil, fmt.Errorf("export dead letters: %w", err)
	}
	return exports, nil
}

func scanExport(row pgx.CollectableRow) (Export, error) {
	var e Export
	var id, eventID, payload string
	var headers *string
	err := row.Scan(&id, &eventID, &e.Type, &e.AggregateType, &e.AggregateID, &payload, &headers, &e.Namespace, &e.TenantID)
	if err != nil {
		return e, err
	}
	// A payload without the envelope's form is what some events died of; then all of it is the data.
	var envelope struct {
		OccurredAt json.RawMessage `json:"occurredAt"`
		Actor      json.RawMessage `json:"actor"`
		Data       json.RawMessage `json:"data"`
	}
	e.Data = json.RawMessage(payload)
	if json.Unmarshal([]byte(payload), &envelope) == nil && envelope.Data != nil {
		e.Data, e.OccurredAt, e.Actor = envelope.Data, envelope.OccurredAt, envelope.Actor
	}
	e.Headers = map[string]string{}
	if headers != nil {
		// Headers that are not strings are another cause of death; they cannot be emitted again.
		var raw map[string]any
		if json.Unmarshal([]byte(*headers), &raw) == nil {
			for name, value := range raw {
				if text, ok := value.(string); ok {
					e.Headers[name] = text
				}
			}
		}
	}
	e.Headers[CorrectsHeader] = eventID
	// Emitting the file twice must not make two events of one.
	e.DedupeKey = "corrects/" + id
	if e.TenantID != nil {
		e.DedupeKey = *e.TenantID + "/" + e.DedupeKey
	}
	return e, nil
}

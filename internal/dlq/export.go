package dlq

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
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

// exportAtOnce bounds how many payloads are in memory.
const exportAtOnce = 100

// ExportParams describes which dead letters to export: by a filter or, when there is none, by ids.
type ExportParams struct {
	Filter *Filter
	// IDs may be dead letters' or events', as ParseID returns them. No ids export nothing.
	IDs []string
}

// ExportResult counts what Export did.
type ExportResult struct {
	Written int64
	// Missing counts the ids that have no dead letter, or an erased one.
	Missing int64
}

// Export passes dead letters, oldest first, to each as new events that can be corrected and
// emitted. Ids without a dead letter are an error after everything else was exported.
func (o *Outbox) Export(ctx context.Context, p ExportParams, each func(Export) error) (ExportResult, error) {
	var r ExportResult
	source := o.Named(ctx, Replay, p.IDs)
	if p.Filter != nil {
		filter := *p.Filter
		if err := o.SettleAggregate(ctx, &filter); err != nil {
			return r, err
		}
		scan, err := o.ScanDeadLetters(filter, outbox.OldestFirst)
		if err != nil {
			return r, fault.As(fault.Usage, err)
		}
		source = scanned(ctx, scan)
	}
	for targets, err := range source {
		if err != nil {
			return r, err
		}
		for part := range slices.Chunk(targets, exportAtOnce) {
			exports, err := o.exports(ctx, part)
			if err != nil {
				return r, err
			}
			for _, e := range exports {
				if err := each(e); err != nil {
					return r, err
				}
				r.Written++
			}
			if p.Filter == nil { // a filter names none that has to be there
				r.Missing += int64(len(part) - len(exports))
			}
		}
	}
	return r, r.verdict()
}

// exports reads dead letters as new events, in the order of the targets, under the names that their
// types have now: a former one is not emitted. Those that are gone are left out.
func (o *Outbox) exports(ctx context.Context, targets []Target) ([]Export, error) {
	rows, err := outbox.Rows[exportRow](ctx, o.DB, "export dead letters", selectExport, idsOf(targets))
	exports := make([]Export, len(rows))
	for i, row := range rows {
		exports[i] = row.export()
		if t, known := o.Registry.Find(row.Namespace, row.Type); known {
			exports[i].Type = t.Name
		}
	}
	return exports, err
}

// exportRow is a dead letter with what its event carried.
type exportRow struct {
	ID, EventID, Type, AggregateType, AggregateID, Payload, Namespace string
	Headers, TenantID                                                 *string
}

func (r exportRow) export() Export {
	e := Export{
		Type: r.Type, AggregateType: r.AggregateType, AggregateID: r.AggregateID, Namespace: r.Namespace, TenantID: r.TenantID,
		Data: json.RawMessage(r.Payload), Headers: map[string]string{},
	}
	// A payload without the envelope's form is what some events died of; then all of it is the data.
	var envelope struct {
		OccurredAt json.RawMessage `json:"occurredAt"`
		Actor      json.RawMessage `json:"actor"`
		Data       json.RawMessage `json:"data"`
	}
	if json.Unmarshal([]byte(r.Payload), &envelope) == nil && envelope.Data != nil {
		e.Data, e.OccurredAt, e.Actor = envelope.Data, envelope.OccurredAt, envelope.Actor
	}
	// Headers that are not strings are another cause of death; they cannot be emitted again.
	var raw map[string]any
	if r.Headers != nil && json.Unmarshal([]byte(*r.Headers), &raw) == nil {
		for name, value := range raw {
			if text, ok := value.(string); ok {
				e.Headers[name] = text
			}
		}
	}
	e.Headers[CorrectsHeader] = r.EventID
	// Emitting the file twice must not make two events of one.
	e.DedupeKey = "corrects/" + r.ID
	if e.TenantID != nil {
		e.DedupeKey = *e.TenantID + "/" + e.DedupeKey
	}
	return e
}

func (r ExportResult) verdict() error {
	switch {
	case r.Missing > 0 && r.Written > 0:
		return fault.Partialf("%s of the dead letters are not found, or erased", words.Count(r.Missing))
	case r.Missing > 0:
		return fault.NotFoundf("no dead letter has that id, or it was erased")
	default:
		return nil
	}
}

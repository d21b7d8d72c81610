package dlq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Editing is a dead letter whose event is to be corrected, read but not touched.
type Editing struct {
	Letter Entry
	// Database is where it is.
	Database Identity
	// Data is the payload that the event died with.
	Data json.RawMessage

	event   Export
	emitter *emit.Emitter
	outbox  *Outbox
}

// ChooseEdit reads what is to be corrected. id is a dead letter's or an event's. What cannot be
// corrected is refused here: an operator should not find that out after writing a new payload.
func (o *Outbox) ChooseEdit(ctx context.Context, id string) (*Editing, error) {
	id, err := outbox.ParseID(id)
	if err != nil {
		return nil, err
	}
	e := &Editing{outbox: o, emitter: emit.New(o.Registry)}
	if e.Letter, err = o.DeadLetter(ctx, id); err != nil {
		return nil, err
	}
	if e.Database, err = o.Identity(ctx); err != nil {
		return nil, err
	}
	target := []Target{{ID: e.Letter.ID, EventID: e.Letter.EventID}}
	would, err := o.judge(ctx, Edit, target, false)
	if err != nil {
		return nil, err
	}
	if err := e.refusal(would[0].Outcome, ""); err != nil {
		return nil, err
	}
	exports, err := o.exports(ctx, target)
	if err != nil {
		return nil, err
	}
	if len(exports) == 0 {
		return nil, fault.NotFoundf("dead letter %s has just been removed", e.Letter.ID)
	}
	e.event, e.Data = exports[0], exports[0].Data
	return e, nil
}

// refusal is the error for a dead letter that is not corrected; nil when it can be or was.
func (e *Editing) refusal(outcome, by string) error {
	switch outcome {
	case Corrected:
		return nil
	case AlreadyCorrected:
		if by == "" {
			return fault.Hint(fault.Preconditionf("dead letter %s is corrected already", e.Letter.ID), "outboxctl dlq show %s tells by whom", e.Letter.ID)
		}
		return fault.Hint(fault.Preconditionf("dead letter %s is corrected already, by event %s: nothing was changed", e.Letter.ID, by), "outboxctl event show %s", by)
	case Discarded:
		return fault.Hint(fault.Preconditionf("dead letter %s is discarded", e.Letter.ID), "outboxctl dlq restore %s opens it again", e.Letter.ID)
	default:
		return fault.Hint(fault.Preconditionf("dead letter %s cannot be corrected: %s", e.Letter.ID, Explain(outcome)), "outboxctl why %s", e.Letter.EventID)
	}
}

// Same reports whether data says what the event died with, however it is laid out.
func (e *Editing) Same(data []byte) bool {
	var was, is bytes.Buffer
	return json.Compact(&was, e.Data) == nil && json.Compact(&is, data) == nil && bytes.Equal(was.Bytes(), is.Bytes())
}

// Check reports what is wrong with a new payload, by the catalogue and by the broker's limits.
func (e *Editing) Check(data []byte) error {
	_, err := e.prepare(data)
	return err
}

func (e *Editing) prepare(data []byte) (emit.Prepared, error) {
	if !json.Valid(data) {
		return emit.Prepared{}, fault.Usagef("the payload is not JSON: %s", notJSON(data))
	}
	event := e.event
	event.Data = data
	text, err := json.Marshal(event)
	if err != nil {
		return emit.Prepared{}, fault.Usagef("encode the event: %w", err)
	}
	prepared, err := outbox.PrepareLine(e.emitter, text)
	return prepared, outbox.EmitError(err)
}

// notJSON reports where to look in a text that is not JSON.
func notJSON(data []byte) string {
	var anything any
	var syntax *json.SyntaxError
	if len(bytes.TrimSpace(data)) == 0 || !errors.As(json.Unmarshal(data, &anything), &syntax) {
		return "it is empty"
	}
	return fmt.Sprintf("check the quotes, commas and brackets up to line %d", 1+bytes.Count(data[:syntax.Offset], []byte("\n")))
}

// EditParams is how a correction is made.
type EditParams struct {
	Data []byte
	// Actor and Note go to the audit row.
	Actor, Note string
	// Detail goes to it too.
	Detail map[string]any
	// DryRun checks everything and changes nothing.
	DryRun bool
}

// EditResult is what became of a dead letter that was corrected.
type EditResult struct {
	ID      string `json:"id"`
	EventID string `json:"eventId"`
	Outcome string `json:"outcome"`
	// CorrectedBy is the new event; empty in a dry run.
	CorrectedBy string `json:"correctedBy,omitempty"`
	// Behind is how many events of the ordering key wait for the new one, as they did for the old one.
	Behind int64 `json:"behind"`
	// RunID finds the audit row; empty in a dry run.
	RunID  string `json:"runId,omitempty"`
	DryRun bool   `json:"dryRun"`
}

// Apply emits the corrected event and discards the dead letter, in one transaction with one audit
// row, also when ctx ends meanwhile. Of two operators who correct the same one, the second is refused.
func (e *Editing) Apply(ctx context.Context, p EditParams) (EditResult, error) {
	r := EditResult{ID: e.Letter.ID, EventID: e.Letter.EventID, Outcome: Corrected, Behind: e.Letter.Blocks, DryRun: p.DryRun}
	if p.DryRun {
		r.Outcome = Edit.Would()
	}
	prepared, err := e.prepare(p.Data)
	if err != nil || p.DryRun {
		return r, err
	}
	var row struct{ Payload, Headers json.RawMessage }
	if err := json.Unmarshal(prepared.Row(), &row); err != nil {
		return r, err
	}
	run := uuid.NewString()
	detail := map[string]any{"runId": run}
	maps.Copy(detail, p.Detail)
	args := []any{r.ID, prepared.ID.String(), string(row.Payload), string(row.Headers), p.Actor, p.Note, outbox.JSON{Of: detail}}
	var by, outcome string // by another event where another operator was faster
	err = e.outbox.change(ctx, callCorrect, args, &by, &outcome)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(pg.Code, "OX0") {
		return r, fault.Usagef("%s", pg.Message) // its catalogue may be newer than ours
	}
	if err != nil {
		return r, fmt.Errorf("correct the event: %w", err)
	}
	if err := e.refusal(outcome, by); err != nil {
		return r, err
	}
	r.CorrectedBy, r.RunID = by, run
	return r, nil
}

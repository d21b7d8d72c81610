package dlq

import (
	"context"
	"fmt"
	"maps"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// CannotUndo returns why a run cannot be taken back; nil when it can. What has left for the broker,
// or is gone, cannot be.
func (r AuditRun) CannotUndo() error {
	if why := Action(r.Action).about().final; why != "" {
		return fault.Preconditionf("%s cannot be undone: %s", r.Action, why)
	}
	return nil
}

// UndoAction is the action that takes back what a run did to dead letters; empty for a run that
// paused or resumed.
func (r *AuditRunResult) UndoAction() Action { return Action(r.Action).about().undo }

// UndoPauseParams is a pause, or the end of one, that is to be taken back.
type UndoPauseParams struct {
	Run *AuditRunResult
	// Actor and Note go to the audit row.
	Actor, Note string
	// Detail goes to it too.
	Detail map[string]any
	// DryRun changes nothing.
	DryRun bool
}

// What can keep a pause from being taken back, besides NotPaused.
const (
	pauseChanged = "changed"
	pauseEnded   = "ended"
)

const (
	selectUndoPause = `SELECT outcome, kind, value, present ->> 'actor', (before ->> 'until')::timestamptz FROM outbox_pause_undone($1::bigint)`
	callUndoPause   = `SELECT outbox_undo_pause($1::bigint, $2, nullif($3, ''), $4::text::jsonb)`
)

// UndoPause takes a pause, its extension or its end back: the pause there was before is there again
// as it was, or there is none. Where somebody paused or resumed since, it is an error and nothing
// is changed.
func (o *Outbox) UndoPause(ctx context.Context, p UndoPauseParams) (outbox.PauseResult, error) {
	r := outbox.PauseResult{RunID: uuid.NewString()}
	about := map[string]any{"runId": r.RunID}
	maps.Copy(about, p.Detail)
	var err error
	var by *string
	look := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}) error {
		return q.QueryRow(ctx, selectUndoPause, p.Run.Last).Scan(&r.Outcome, &r.Kind, &r.Value, &by, &r.Until)
	}
	if p.DryRun {
		r.RunID, err = "", look(o.DB)
	} else {
		err = pgx.BeginTxFunc(ctx, o.DB, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if err := look(tx); err != nil {
				return err
			}
			return tx.QueryRow(ctx, callUndoPause, p.Run.Last, p.Actor, p.Note,
				outbox.JSON{Of: about}).Scan(&r.Outcome)
		})
	}
	if err != nil {
		return r, fmt.Errorf("undo the %s: %w", p.Run.Action, err)
	}
	if err := refuseUndoPause(r, by); err != nil {
		return r, err
	}
	if p.DryRun {
		r.Outcome = map[string]string{outbox.Paused: outbox.WouldPause,
			outbox.Resumed: outbox.WouldResume}[r.Outcome]
	}
	r.Events, err = o.CountHeld(ctx, outbox.PauseParams{Kind: r.Kind, Value: r.Value})
	return r, err
}

// refuseUndoPause returns why a pause was left as it is; nil when it was not.
func refuseUndoPause(r outbox.PauseResult, by *string) error {
	const hint = "outboxctl audit shows who changed it, and outboxctl pause list what is paused"
	switch r.Outcome {
	case outbox.NotPaused:
		return outbox.NotPausedError(outbox.PauseParams{Kind: r.Kind, Value: r.Value})
	case pauseEnded:
		return fault.Preconditionf("the pause of %s %s would have ended since", r.Kind, r.Value)
	case pauseChanged:
		if by != nil {
			return fault.Hint(fault.Preconditionf("the pause of %s %s was changed since: it is %s's, and stays", r.Kind, r.Value, *by), hint)
		}
		return fault.Hint(fault.Preconditionf("%s %s was paused and resumed since: it stays resumed",
			r.Kind, r.Value), hint)
	}
	return nil
}

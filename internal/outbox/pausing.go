package outbox

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// The actions of pauses in the audit trail.
const (
	ActionPause  = "pause"
	ActionResume = "resume"
)

// What became of a pause; one that had been there before and got another end is extended.
const (
	Paused    = "paused"
	Resumed   = "resumed"
	NotPaused = "not_paused"
	extended  = "extended"
	// In a dry run.
	WouldPause  = "would_pause"
	WouldResume = "would_resume"
)

// PauseParams names what is to be paused, or is no longer to be.
type PauseParams struct {
	// Kind is one of outbox.PauseTopic and its like, and Value which one.
	Kind, Value string
	// For is how long; 0: until it is resumed.
	For time.Duration
	// Actor, Note and Detail go to the audit row.
	Actor, Note string
	Detail      map[string]any
}

// PauseResult is a pause that was made or ended.
type PauseResult struct {
	Kind    string `json:"kind"`
	Value   string `json:"value"`
	Outcome string `json:"outcome"`
	// Events is how many it holds back, or held back, when that was counted.
	Events int64 `json:"events"`
	// Until is when it ends by itself; nil: it does not.
	Until *time.Time `json:"until"`
	// Before is the pause that this one replaced.
	Before *PauseBefore `json:"before,omitempty"`
	// RunID finds the audit row; empty when nothing was changed.
	RunID string `json:"runId,omitempty"`
}

// PauseBefore is a pause that was there before.
type PauseBefore struct {
	Actor string     `json:"actor"`
	Note  string     `json:"note"`
	At    time.Time  `json:"at"`
	Until *time.Time `json:"until"`
}

// CheckPause refuses what does not exist. A topic or type that the catalogue lacks is most likely a
// typing error: the pause would hold back nothing, unnoticed.
func (o *Outbox) CheckPause(_ context.Context, p *PauseParams) error {
	var known []string
	switch p.Kind {
	case PauseTopic:
		known = o.Registry.TopicNames()
	case PauseType:
		known = o.Registry.EventTypes()
	case PauseTenant:
		id, err := ParseTenant(p.Value)
		if err != nil {
			return err
		}
		p.Value = id.String()
		return nil
	default:
		return nil
	}
	if slices.Contains(known, p.Value) {
		return nil
	}
	return words.DidYouMean(fault.Usagef("the catalogue has no %s %q", p.Kind, p.Value), p.Value, known, "outboxctl registry list shows the event types and their topics")
}

// CheckResume refuses what is not paused, before anything is asked of a person.
func (o *Outbox) CheckResume(ctx context.Context, p *PauseParams) error {
	pauses, err := Pauses(ctx, o.DB)
	if err != nil {
		return err
	}
	if id, err := ParseTenant(p.Value); p.Kind == PauseTenant && err == nil {
		p.Value = id.String()
	}
	var paused []string
	for _, pause := range pauses {
		if pause.Kind != p.Kind {
			continue
		}
		if pause.Value == p.Value {
			return nil
		}
		paused = append(paused, pause.Value)
	}
	return words.DidYouMean(NotPausedError(*p), p.Value, paused, "outboxctl pause list shows what is")
}

// NotPausedError means that there is no such pause.
func NotPausedError(p PauseParams) error {
	return fault.Preconditionf("%s %s is not paused", p.Kind, p.Value)
}

// Pauses lists what is paused, with what that holds back.
func (o *Outbox) Pauses(ctx context.Context) ([]HeldPause, error) {
	return HeldPauses(ctx, o.DB, o.Registry.Names())
}

// CountHeld counts what waits that a pause holds back, or would hold back.
func (o *Outbox) CountHeld(ctx context.Context, p PauseParams) (events int64, err error) {
	// A walk over outbox_events_seq_claim_idx.
	sql := "SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL AND " + Chosen("$1")
	err = o.DB.QueryRow(ctx, sql, Pause{Kind: p.Kind, Value: p.Value}.Texts(o.Registry.Names())).Scan(&events)
	return events, err
}

const (
	callPause  = `SELECT outbox_pause($1, $2, nullif($3::float8, 0), $4, nullif($5, ''), $6::text::jsonb)`
	callResume = `SELECT outbox_resume($1, $2, $3, nullif($4, ''), $5::text::jsonb)`
	// When the pause ends now, and the one of before.
	selectPaused = `SELECT (SELECT until FROM outbox_pauses WHERE kind = $1 AND value = $2),
       (SELECT a.detail ->> 'before' FROM outbox_audit AS a WHERE a.detail ->> 'runId' = $3)`
)

// Pause makes publishers leave something alone, or gives such a pause another end.
func (o *Outbox) Pause(ctx context.Context, p PauseParams) (PauseResult, error) {
	return o.changePause(ctx, p, func(detail JSON) (string, []any) {
		return callPause, []any{p.Kind, p.Value, p.For.Seconds(), p.Actor, p.Note, detail}
	})
}

// Resume ends a pause. One that is not there is an error.
func (o *Outbox) Resume(ctx context.Context, p PauseParams) (PauseResult, error) {
	r, err := o.changePause(ctx, p, func(detail JSON) (string, []any) {
		return callResume, []any{p.Kind, p.Value, p.Actor, p.Note, detail}
	})
	if err == nil && r.Outcome == NotPaused {
		r.RunID = ""
		err = fault.Hint(NotPausedError(p), "outboxctl pause list shows what is")
	}
	return r, err
}

func (o *Outbox) changePause(ctx context.Context, p PauseParams, call func(detail JSON) (sql string, args []any)) (PauseResult, error) {
	r := PauseResult{Kind: p.Kind, Value: p.Value, RunID: uuid.NewString()}
	var err error
	if r.Events, err = o.CountHeld(ctx, p); err != nil {
		return r, err
	}
	facts := map[string]any{"runId": r.RunID}
	maps.Copy(facts, p.Detail)
	sql, args := call(JSON{facts})
	var before *string
	err = pgx.BeginTxFunc(ctx, o.DB, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, sql, args...).Scan(&r.Outcome); err != nil {
			return err
		}
		return tx.QueryRow(ctx, selectPaused, p.Kind, p.Value, r.RunID).Scan(&r.Until, &before)
	})
	if err == nil && r.Outcome == extended && before != nil {
		err = json.Unmarshal([]byte(*before), &r.Before)
	}
	return r, err
}

// PauseEnds returns when a pause ends, in words.
func PauseEnds(now time.Time, until *time.Time) string {
	if until == nil {
		return "until resumed"
	}
	return "for " + words.Seconds(max(until.Sub(now).Seconds(), 0))
}

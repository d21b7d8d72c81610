package dlq

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The functions of migration 00022. Arrays of times and of bytes travel as text: in the simple protocol the driver cannot
// write them.
const (
	callPlanCreate = `SELECT plan::text, lease::text FROM outbox_plan_create($1, $2, $3, $4::jsonb, $5::jsonb)`
	callPlanAdd    = `
SELECT outbox_plan_add($1::uuid, $2::uuid, $3::uuid[], $4::uuid[], $5::timestamptz[],
                       ARRAY(SELECT decode(d, 'hex') FROM unnest($6::text[]) WITH ORDINALITY AS w(d, ord) ORDER BY ord))`
	callPlanReady   = `SELECT outbox_plan_ready($1::uuid, $2::uuid, $3::jsonb, $4::jsonb)`
	callPlanAbandon = `SELECT outbox_plan_abandon($1::uuid, $2, $3)`
)

// FrozenParams is a set to be frozen in the database.
type FrozenParams struct {
	Action       Action
	Author, Note string
	Database     Identity
	// Filter is how the set was chosen, for the reader.
	Filter any
	Source Source
	// OnFrozen is told how many rows are frozen, chunk by chunk. An error ends the freezing.
	OnFrozen func(n int64) error
}

// Freezing is a plan that exists, and that its set is being written to.
type Freezing struct {
	ID string

	store   *Store
	params  FrozenParams
	lease   string
	leftOut map[string]int64
}

// BeginPlan creates a plan in the database. Its set is written by Fill.
func (s *Store) BeginPlan(ctx context.Context, p FrozenParams) (*Freezing, error) {
	filter, err := json.Marshal(p.Filter)
	if err != nil {
		return nil, fmt.Errorf("encode the filter: %w", err)
	}
	database, err := json.Marshal(p.Database)
	if err != nil {
		return nil, fmt.Errorf("encode the database's identity: %w", err)
	}
	f := &Freezing{store: s, params: p, leftOut: map[string]int64{}}
	args := []any{string(p.Action), p.Author, p.Note, string(filter), string(database)}
	if err := s.change(ctx, callPlanCreate, args, &f.ID, &f.lease); err != nil {
		return nil, fmt.Errorf("create a plan: %w", err)
	}
	return f, nil
}

// Fill writes the set to the plan, in chunks of one transaction each. A plan that is not finished, or in which there is
// nothing, is abandoned. effects is what else is known about the set.
func (f *Freezing) Fill(ctx context.Context, effects OrderEffects) error {
	err := f.fill(ctx)
	if err == nil {
		err = f.finish(ctx, effects)
	}
	if err == nil {
		return nil
	}
	if undo := f.store.AbandonPlan(context.WithoutCancel(ctx), f.ID, f.params.Author, err.Error()); undo != nil {
		return fmt.Errorf("freeze: %w; abandon plan %s: %w", err, f.ID, undo)
	}
	return fmt.Errorf("freeze: %w", err)
}

func (f *Freezing) finish(ctx context.Context, effects OrderEffects) error {
	leftOut, err := json.Marshal(f.leftOut)
	if err != nil {
		return fmt.Errorf("encode what was left out: %w", err)
	}
	beside, err := json.Marshal(effects)
	if err != nil {
		return fmt.Errorf("encode the effects: %w", err)
	}
	return f.store.change(ctx, callPlanReady, []any{f.ID, f.lease, string(leftOut), string(beside)})
}

func (f *Freezing) fill(ctx context.Context) error {
	for {
		targets, err := f.params.Source.Next(ctx, ChunkSize)
		if err != nil || len(targets) == 0 {
			return err
		}
		items, err := f.store.freeze(ctx, f.params.Action, targets, f.leftOut)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			continue
		}
		ids, events, seen, digests := make([]string, len(items)), make([]string, len(items)), make([]*string, len(items)), make([]string, len(items))
		for i, item := range items {
			ids[i], events[i], digests[i] = item.ID, item.EventID, item.PayloadSHA256
			if item.PublishedAt != nil {
				at := item.PublishedAt.Format(time.RFC3339Nano)
				events[i], seen[i] = item.ID, &at
			}
		}
		var total int64
		if err := f.store.change(ctx, callPlanAdd, []any{f.ID, f.lease, ids, events, seen, digests}, &total); err != nil {
			return err
		}
		if err := f.params.OnFrozen(total); err != nil {
			return err
		}
	}
}

// AbandonPlan gives up a plan that was not started. Without a reason it says who did.
func (s *Store) AbandonPlan(ctx context.Context, id, actor, why string) error {
	return s.change(ctx, callPlanAbandon, []any{id, actor, why})
}

// change calls a function that writes, in a transaction of its own, and reads its one row. A call that was sent is waited
// for.
func (s *Store) change(ctx context.Context, sql string, args []any, into ...any) error {
	ctx, cancel := finishing(ctx)
	defer cancel()
	opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	return pgx.BeginTxFunc(ctx, s.db, opts, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			if len(into) == 0 {
				return struct{}{}, nil
			}
			return struct{}{}, row.Scan(into...)
		})
		return err
	})
}

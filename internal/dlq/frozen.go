package dlq

import (
	"context"
	"encoding/hex"
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
	callPlanReady   = `SELECT outbox_plan_ready($1::uuid, $2::uuid, $3::jsonb)`
	callPlanAbandon = `SELECT outbox_plan_abandon($1::uuid, $2)`
)

// FrozenParams is a set to be frozen in the database.
type FrozenParams struct {
	Action         Action
	Author, Reason string
	Database       Identity
	// Filter is how the set was chosen, for the reader.
	Filter any
	Source Source
	// OnFrozen is told how many rows are frozen, chunk by chunk.
	OnFrozen func(n int64)
}

// FreezePlan writes a set to the database, in chunks of one transaction each, and returns the id of the plan. A plan that
// is not finished is abandoned.
func (s *Store) FreezePlan(ctx context.Context, p FrozenParams) (id string, err error) {
	filter, err := json.Marshal(p.Filter)
	if err != nil {
		return "", fmt.Errorf("encode the filter: %w", err)
	}
	database, err := json.Marshal(p.Database)
	if err != nil {
		return "", fmt.Errorf("encode the database's identity: %w", err)
	}
	var lease string
	if err := s.change(ctx, callPlanCreate, []any{string(p.Action), p.Author, p.Reason, string(filter), string(database)}, &id, &lease); err != nil {
		return "", fmt.Errorf("create a plan: %w", err)
	}
	leftOut, err := s.freezeChunks(ctx, p, id, lease)
	if err == nil {
		var doc []byte
		if doc, err = json.Marshal(leftOut); err == nil {
			err = s.change(ctx, callPlanReady, []any{id, lease, string(doc)})
		}
	}
	if err != nil {
		if undo := s.AbandonPlan(context.WithoutCancel(ctx), id, p.Author); undo != nil {
			return "", fmt.Errorf("freeze: %w; abandon plan %s: %w", err, id, undo)
		}
		return "", fmt.Errorf("freeze: %w", err)
	}
	return id, nil
}

func (s *Store) freezeChunks(ctx context.Context, p FrozenParams, id, lease string) (leftOut map[string]int64, err error) {
	leftOut = map[string]int64{}
	for {
		targets, err := p.Source.Next(ctx, ChunkSize)
		if err != nil || len(targets) == 0 {
			return leftOut, err
		}
		items, err := s.freeze(ctx, p.Action, targets, leftOut)
		if err != nil {
			return nil, err
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
			if _, err := hex.DecodeString(digests[i]); err != nil {
				return nil, fmt.Errorf("digest of %s: %w", item.ID, err)
			}
		}
		var total int64
		if err := s.change(ctx, callPlanAdd, []any{id, lease, ids, events, seen, digests}, &total); err != nil {
			return nil, err
		}
		p.OnFrozen(total)
	}
}

// AbandonPlan gives up a plan that was not started.
func (s *Store) AbandonPlan(ctx context.Context, id, actor string) error {
	return s.change(ctx, callPlanAbandon, []any{id, actor})
}

// change calls a function that writes, in a transaction of its own, and reads its one row. A call that was sent is waited
// for.
func (s *Store) change(ctx context.Context, sql string, args []any, into ...any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chunkTimeout)
	defer cancel()
	opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
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

package dlq

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// What the functions of plans and runs refuse with.
const (
	codePlanState    = "OX310"
	codePlanMissing  = "OX311"
	codePlanLeaseOut = "OX312"
)

// PlanRefused reports whether err is a plan in another state than the call needs, or one that another process has.
func PlanRefused(err error) bool { return hasCode(err, codePlanState) || LeaseLost(err) }

// PlanMissing reports whether err is a plan that does not exist.
func PlanMissing(err error) bool { return hasCode(err, codePlanMissing) }

// LeaseLost reports whether err is a plan that another process has.
func LeaseLost(err error) bool { return hasCode(err, codePlanLeaseOut) }

func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// Frozen is a plan in the database, and its run once it was started.
type Frozen struct {
	ID     string `json:"id" db:"id"`
	Action Action `json:"action" db:"action"`
	// State is freezing, ready, abandoned, expired, running, stopped, interrupted or done.
	State     string           `json:"state" db:"state"`
	Author    string           `json:"author" db:"author"`
	DBUser    string           `json:"dbUser" db:"db_user"`
	Note      string           `json:"note" db:"note"`
	Filter    json.RawMessage  `json:"filter" db:"filter"`
	Database  Identity         `json:"database" db:"database"`
	CreatedAt time.Time        `json:"createdAt" db:"created_at"`
	FrozenAt  *time.Time       `json:"frozenAt" db:"frozen_at"`
	ExpiresAt time.Time        `json:"expiresAt" db:"expires_at"`
	Total     int64            `json:"total" db:"total"`
	LeftOut   map[string]int64 `json:"leftOut" db:"left_out"`
	Summary   Summary          `json:"summary" db:"summary"`
	Runner    string           `json:"runner" db:"runner"`
	Options   json.RawMessage  `json:"options" db:"options"`
	StartedAt *time.Time       `json:"startedAt" db:"started_at"`
	EndedAt   *time.Time       `json:"endedAt" db:"ended_at"`
	// EndedWhy is why the run ended before all was done.
	EndedWhy string           `json:"endedWhy" db:"ended_why"`
	Done     int64            `json:"done" db:"done"`
	Counts   map[string]int64 `json:"counts" db:"counts"`
	// Watched is what became of the events, as far as the last runner watched.
	Watched *Watched `json:"watched" db:"watched"`
}

// A process that is gone has left its plan freezing or running; its lease tells.
const frozenColumns = `p.id::text AS id, p.action,
       CASE WHEN p.state = 'freezing' AND p.lease_until < now() THEN 'abandoned'
            WHEN p.state = 'running' AND p.lease_until < now() THEN 'interrupted'
            WHEN p.state = 'ready' AND p.created_at < now() - interval '7 days' THEN 'expired'
            ELSE p.state END AS state,
       p.author, p.db_user, coalesce(p.note, '') AS note, coalesce(p.filter, 'null') AS filter, p.database, p.created_at, p.frozen_at,
       p.created_at + interval '7 days' AS expires_at, p.total, p.left_out, p.summary, coalesce(p.runner, '') AS runner,
       coalesce(p.options, '{}') AS options, p.started_at, p.ended_at,
       CASE WHEN p.state = 'running' AND p.lease_until < now() THEN 'its runner is gone' ELSE coalesce(p.ended_why, '') END AS ended_why,
       p.done, p.counts, p.watched`

const (
	selectFrozen = `SELECT ` + frozenColumns + ` FROM outbox_plans AS p WHERE p.id = $1::uuid`
	// Ids grow with time, so the primary key has the order.
	selectFrozenPage = `
SELECT ` + frozenColumns + `
  FROM outbox_plans AS p
 WHERE p.id < coalesce(nullif($1, '')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') AND (p.started_at IS NOT NULL OR NOT $2::bool)
 ORDER BY p.id DESC
 LIMIT $3`
	selectFrozenFirst    = `SELECT c.ids[1:$2::int]::text[], c.event_ids[1:$2::int]::text[] FROM outbox_plan_chunks AS c WHERE c.plan_id = $1::uuid AND c.chunk = 1`
	selectFrozenChunks   = `SELECT c.ids::text[], c.event_ids::text[], c.seen, c.digests FROM outbox_plan_chunks AS c WHERE c.plan_id = $1::uuid ORDER BY c.chunk`
	selectFrozenFailures = `
SELECT f.key, coalesce(c.event_ids[array_position(c.ids, f.key::uuid)]::text, ''), f.value
  FROM outbox_plan_chunks AS c, jsonb_each_text(c.outcomes) AS f
 WHERE c.plan_id = $1::uuid AND c.outcomes <> '{}'
 ORDER BY c.chunk, f.key
 LIMIT $2`
)

// Frozen reads a plan. outbox.ErrNotFound when there is none with the id.
func (s *Store) Frozen(ctx context.Context, id string) (Frozen, error) {
	found, err := collect(ctx, s.db, pgx.RowToStructByName[Frozen], selectFrozen, id)
	switch {
	case err != nil:
		return Frozen{}, fmt.Errorf("read the plan: %w", err)
	case len(found) == 0:
		return Frozen{}, outbox.ErrNotFound
	}
	return found[0], nil
}

// FrozenPlans lists up to n plans, newest first, after the one with the id given; started leaves out those that were not.
func (s *Store) FrozenPlans(ctx context.Context, after string, started bool, n int) ([]Frozen, error) {
	found, err := collect(ctx, s.db, pgx.RowToStructByName[Frozen], selectFrozenPage, after, started, n)
	if err != nil {
		return nil, fmt.Errorf("list plans: %w", err)
	}
	return found, nil
}

// FrozenFirst lists the first n ids of a plan, and the events' ids behind them; none of one that was abandoned.
func (s *Store) FrozenFirst(ctx context.Context, id string, n int) (ids, events []string, err error) {
	err = s.db.QueryRow(ctx, selectFrozenFirst, id, n).Scan(&ids, &events)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, fmt.Errorf("read the first rows of the plan: %w", err)
	}
	return ids, events, nil
}

// FrozenFailures lists up to n rows of a plan that were not changed as planned.
func (s *Store) FrozenFailures(ctx context.Context, id string, n int) ([]Outcome, error) {
	found, err := collect(ctx, s.db, scanOutcome, selectFrozenFailures, id, n)
	if err != nil {
		return nil, fmt.Errorf("list what was not changed: %w", err)
	}
	return found, nil
}

// WriteFrozen writes a plan as the file of a plan, in which each row has the digest of what it carried when it was frozen.
func (s *Store) WriteFrozen(ctx context.Context, w io.Writer, plan Frozen) error {
	header := PlanHeader{
		Format: planFormat, Version: planVersion, ID: plan.ID, Action: plan.Action, CreatedAt: plan.CreatedAt, Author: plan.Author, Note: plan.Note, Database: plan.Database,
	}
	if string(plan.Filter) != "null" {
		header.Filter = plan.Filter
	}
	out, err := newPlanWriter(w, header)
	if err != nil {
		return err
	}
	rows, err := s.db.Query(ctx, selectFrozenChunks, plan.ID)
	if err != nil {
		return fmt.Errorf("read the rows of the plan: %w", err)
	}
	var (
		ids, events []string
		seen        []*time.Time
		digests     [][]byte
	)
	_, err = pgx.ForEachRow(rows, []any{&ids, &events, &seen, &digests}, func() error {
		for i, id := range ids {
			item := PlanItem{ID: id, PayloadSHA256: hex.EncodeToString(digests[i])}
			if plan.Action == Republish {
				at := seen[i].UTC()
				item.PublishedAt = &at
			} else {
				item.EventID = events[i]
			}
			if err := out.add(item); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the rows of the plan: %w", err)
	}
	return out.finish()
}

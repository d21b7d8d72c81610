package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Plan is a change to a set of rows, kept in the database, and its run once it was started.
type Plan struct {
	ID     string `json:"id" db:"id"`
	Action Action `json:"action" db:"action"`
	// State is making, ready, abandoned, expired, running, stopped, interrupted or done.
	State  string          `json:"state" db:"state"`
	Author string          `json:"author" db:"author"`
	DBUser string          `json:"dbUser" db:"db_user"`
	Note   string          `json:"note" db:"note"`
	Filter json.RawMessage `json:"filter" db:"filter"`
	// Undoes is the run of the audit trail that it takes back.
	Undoes    string           `json:"undoes" db:"undoes"`
	Database  Identity         `json:"database" db:"database"`
	CreatedAt time.Time        `json:"createdAt" db:"created_at"`
	ReadyAt   *time.Time       `json:"readyAt" db:"ready_at"`
	ExpiresAt time.Time        `json:"expiresAt" db:"expires_at"`
	Total     int64            `json:"total" db:"total"`
	LeftOut   map[string]int64 `json:"leftOut" db:"left_out"`
	Summary   Summary          `json:"summary" db:"summary"`
	Runner    string           `json:"runner" db:"runner"`
	Options   json.RawMessage  `json:"options" db:"options"`
	StartedAt *time.Time       `json:"startedAt" db:"started_at"`
	EndedAt   *time.Time       `json:"endedAt" db:"ended_at"`
	// StopBy is who asked the run to stop, which it does after the rows it is at; empty: nobody.
	StopBy string `json:"stopBy" db:"stop_by"`
	// EndedWhy is why the run ended before all was done.
	EndedWhy string           `json:"endedWhy" db:"ended_why"`
	Done     int64            `json:"done" db:"done"`
	Counts   map[string]int64 `json:"counts" db:"counts"`
	// Watched is what became of the events, as far as the last runner watched.
	Watched *Watched `json:"watched" db:"watched"`
}

// Filtered reports whether a filter chose the set: nobody has looked at each row of it.
func (p Plan) Filtered() bool { return string(p.Filter) != "null" }

// The states of a plan that a process works on, and those that its run can end in.
const (
	PlanMaking      = "making"
	PlanReady       = "ready"
	PlanRunning     = "running"
	PlanDone        = "done"
	PlanStopped     = "stopped"
	PlanInterrupted = "interrupted"
)

// Summary describes the set of a plan: how many rows there are of each kind, as outbox_plan_add
// counted them.
type Summary struct {
	Reasons map[string]int64 `json:"reasons,omitempty"`
	Types   map[string]int64 `json:"types,omitempty"`
	Topics  map[string]int64 `json:"topics,omitempty"`
	Tenants map[string]int64 `json:"tenants,omitempty"`
	OrderEffects
}

// What the functions of plans refuse with.
const (
	codePlanState    = "OX310"
	codePlanMissing  = "OX311"
	codePlanLeaseOut = "OX312"
)

// leaseLost reports whether err is a plan that another process has.
func leaseLost(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == codePlanLeaseOut
}

// A process that is gone has left its plan being made or running; its lease tells. What is done is
// counted in the chunks.
const planColumns = `p.id::text AS id, p.action,
       CASE WHEN p.state = 'making' AND p.lease_until < now() THEN 'abandoned'
            WHEN p.state = 'running' AND p.lease_until < now() THEN 'interrupted'
            WHEN p.state = 'ready' AND p.created_at < now() - interval '7 days' THEN 'expired'
            ELSE p.state END AS state,
       p.author, p.db_user, coalesce(p.note, '') AS note, coalesce(p.filter, 'null') AS filter, coalesce(p.undoes, '') AS undoes, p.database,
       p.created_at, p.ready_at, p.created_at + interval '7 days' AS expires_at,
       CASE p.state WHEN 'making' THEN r.size ELSE p.total END AS total, p.left_out, p.summary,
       coalesce(p.runner, '') AS runner, coalesce(p.options, '{}') AS options, p.started_at, p.ended_at, coalesce(p.stop_by, '') AS stop_by,
       CASE WHEN p.state = 'running' AND p.lease_until < now() THEN 'its runner is gone' ELSE coalesce(p.ended_why, '') END AS ended_why,
       r.done, r.counts, p.watched`

const planFrom = `
  FROM outbox_plans AS p
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(o.n), 0)::bigint AS done, coalesce(jsonb_object_agg(o.outcome, o.n), '{}') AS counts,
              (SELECT coalesce(sum(c.size), 0)::bigint FROM outbox_plan_chunks AS c WHERE c.plan_id = p.id AND p.state = 'making') AS size
         FROM (SELECT k.key AS outcome, sum(k.value::bigint) AS n
                 FROM outbox_plan_chunks AS c, jsonb_each_text(c.counts) AS k
                WHERE c.plan_id = p.id
                GROUP BY 1) AS o) AS r`

const (
	selectPlan = `SELECT ` + planColumns + planFrom + ` WHERE p.id = $1::uuid`
	// Ids grow with time, so the primary key has the order.
	selectPlans = `
SELECT ` + planColumns + planFrom + `
 WHERE p.id < coalesce(nullif($1, '')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') AND (p.state = 'running' OR NOT $2::bool)
 ORDER BY p.id DESC
 LIMIT $3`
	selectPlanFirst = `
SELECT c.ids[1:$2::int]::text[], c.event_ids[1:$2::int]::text[] FROM outbox_plan_chunks AS c WHERE c.plan_id = $1::uuid AND c.chunk = 1`
	selectPlanFailures = `
SELECT f.key AS id, coalesce(c.event_ids[array_position(c.ids, f.key::uuid)]::text, '') AS event_id, f.value AS outcome
  FROM outbox_plan_chunks AS c, jsonb_each_text(c.outcomes) AS f
 WHERE c.plan_id = $1::uuid AND c.outcomes <> '{}'
 ORDER BY c.chunk, f.key
 LIMIT $2`
)

// readPlan reads a plan. outbox.ErrNotFound when there is none with the id.
func (o *Outbox) readPlan(ctx context.Context, id string) (Plan, error) {
	found, err := outbox.Rows[Plan](ctx, o.DB, "read the plan", selectPlan, id)
	switch {
	case err != nil:
		return Plan{}, err
	case len(found) == 0:
		return Plan{}, outbox.ErrNotFound
	}
	return found[0], nil
}

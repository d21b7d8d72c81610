package dlq

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// AuditRun is one change as the operator who made it sees it: all transactions of a replay, not each of them.
type AuditRun struct {
	// Run is the change's runId, or the number of its audit row where it has none.
	Run     string    `json:"run" db:"run"`
	Began   time.Time `json:"began" db:"began"`
	Ended   time.Time `json:"ended" db:"ended"`
	Actor   string    `json:"actor" db:"actor"`
	DBUser  string    `json:"dbUser" db:"db_user"`
	Action  string    `json:"action" db:"action"`
	Note    string    `json:"note" db:"note"`
	Changed int64     `json:"affected" db:"affected"`
	// Transactions counts its audit rows, of which Last is the newest.
	Transactions int64 `json:"transactions" db:"transactions"`
	Last         int64 `json:"-" db:"last"`
}

// A run is told by its newest row; outbox_audit_run_idx finds whether there is a newer one, and the others.
const auditRunColumns = `coalesce(a.detail ->> 'runId', a.id::text) AS run, r.began, r.ended, a.actor, a.db_user, a.action,
       coalesce(a.note, '') AS note, r.affected, r.transactions, a.id AS last`

const auditRunFrom = `outbox_audit AS a CROSS JOIN LATERAL (
       SELECT min(b.at) AS began, max(b.at) AS ended, sum(b.affected)::bigint AS affected, count(*) AS transactions
         FROM outbox_audit AS b
        WHERE b.id = a.id OR b.detail ->> 'runId' = a.detail ->> 'runId') AS r`

const (
	newestOfItsRun = `NOT EXISTS (SELECT FROM outbox_audit AS n WHERE n.detail ->> 'runId' = a.detail ->> 'runId' AND n.id > a.id)`
	// newestWithTheEvent is for a run of which only an older row may have touched the event.
	newestWithTheEvent = `NOT EXISTS (SELECT FROM outbox_audit AS n WHERE n.detail ->> 'runId' = a.detail ->> 'runId' AND n.id > a.id
       AND n.detail -> 'eventIds' @> jsonb_build_array($1::text))`
)

// AuditRuns lists changes, newest first, one row for each however many transactions it took.
func (o *Outbox) AuditRuns(ctx context.Context, p AuditParams, each func(AuditRun) error) (outbox.Paged, error) {
	before, err := o.prepareAudit(ctx, &p)
	if err != nil {
		return outbox.Paged{}, err
	}
	newest := newestOfItsRun
	if p.ID != "" {
		newest = newestWithTheEvent
	}
	last, more, err := outbox.ReadPages(p.Limit, each, func(n int) ([]AuditRun, error) {
		where, args := p.conditions(before)
		args = append(args, n)
		sql := fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s ORDER BY a.id DESC LIMIT $%d", auditRunColumns, auditRunFrom, where, newest, len(args))
		rows, err := outbox.Rows[AuditRun](ctx, o.DB, readAudit, sql, args...)
		if len(rows) > 0 {
			before = rows[len(rows)-1].Last
		}
		return rows, err
	})
	if err != nil || !more {
		return outbox.Paged{}, err
	}
	return outbox.Paged{Next: strconv.FormatInt(last.Last, 10)}, nil
}

// AuditRunResult is one change with what it touched.
type AuditRunResult struct {
	AuditRun
	// Detail is that of its newest transaction.
	Detail   json.RawMessage `json:"detail" db:"detail"`
	EventIDs []string        `json:"eventIds" db:"event_ids"`
	// Undo is the command that takes it back; empty where nothing does.
	Undo string `json:"undo" db:"-"`
}

const selectAuditRun = `
SELECT ` + auditRunColumns + `, coalesce((a.detail - 'eventIds' - 'dlqIds')::text, '{}') AS detail,
       ARRAY(SELECT DISTINCT e FROM outbox_audit AS b, jsonb_array_elements_text(CASE jsonb_typeof(b.detail -> 'eventIds') WHEN 'array' THEN b.detail -> 'eventIds' ELSE '[]' END) AS e
              WHERE b.id = a.id OR b.detail ->> 'runId' = a.detail ->> 'runId' ORDER BY e) AS event_ids
  FROM ` + auditRunFrom + `
 WHERE (a.id = $1::bigint OR a.detail ->> 'runId' >= $2::text AND a.detail ->> 'runId' <= $3::text) AND ` + newestOfItsRun + `
 ORDER BY a.id DESC LIMIT $4`

// AuditRun finds a change by its run, the beginning of one, or the number of an audit row.
func (o *Outbox) AuditRun(ctx context.Context, run string) (*AuditRunResult, error) {
	number, first, last := int64(0), "", ""
	if n, err := strconv.ParseInt(run, 10, 64); err == nil && len(run) < outbox.LeastShortID {
		number = n
	} else {
		id, err := outbox.ParseID(run)
		if err != nil {
			return nil, fault.Hint(fault.Usagef("%q is not a run: it is an id, its beginning, or the number of an audit row", run), "outboxctl audit lists the runs")
		}
		if first, last, err = outbox.IDRange(id); err != nil {
			first, last = id, id
		}
	}
	found, err := outbox.Rows[AuditRunResult](ctx, o.DB, readAudit, selectAuditRun, number, first, last, outbox.NamedCandidates)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fault.Hint(fault.NotFoundf("no run %s in the audit trail", run), "outboxctl audit lists the runs")
	case len(found) > 1:
		names := make([]string, len(found))
		for i, f := range found {
			names[i] = f.Run
		}
		return nil, fault.Usagef("%s is the beginning of several runs: %s", run, strings.Join(names, ", "))
	}
	r := &found[0]
	if r.CannotUndo() == nil {
		r.Undo = "outboxctl audit undo " + r.Run
	}
	return r, nil
}

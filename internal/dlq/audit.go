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
	"github.com/outboxctl/outboxctl/internal/words"
)

// AuditRow is one change an operator made. The ids of the events it touched are left out of Detail.
type AuditRow struct {
	ID       int64     `json:"id" db:"id"`
	At       time.Time `json:"at" db:"at"`
	Actor    string    `json:"actor" db:"actor"`
	DBUser   string    `json:"dbUser" db:"db_user"`
	Action   string    `json:"action" db:"action"`
	Note     string    `json:"note" db:"note"`
	Affected int64     `json:"affected" db:"affected"`
	// EventID is the event that was touched, if it was one.
	EventID *string         `json:"eventId" db:"event_id"`
	Detail  json.RawMessage `json:"detail" db:"detail"`
}

// AuditParams selects audit rows. Zero fields select everything.
type AuditParams struct {
	Actor  string
	Action string
	// ID is that of an event, or of a dead letter, that was touched.
	ID string
	// RunID is a run as parseRun reads it.
	RunID string
	// DeadLetters leaves out what was done to anything else.
	DeadLetters bool
	Since       time.Time // inclusive
	Until       time.Time // exclusive
	outbox.Page
}

// Check reports what is wrong with the params, before anything is opened, and makes the id
// canonical.
func (p *AuditParams) Check() (err error) {
	if p.Action != "" {
		if err := words.OneOf("--action", p.Action, AuditActions()); err != nil {
			return err
		}
	}
	if p.ID != "" {
		if p.ID, err = outbox.ParseID(p.ID); err != nil {
			return err
		}
	}
	if _, err := p.before(); err != nil {
		return err
	}
	return p.Page.CheckLimit()
}

// before is the id that the rows of the page are below; 0 starts at the newest.
func (p AuditParams) before() (int64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(p.Cursor, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.Usagef("the cursor %q is not the number of an audit row", p.Cursor)
	}
	return n, nil
}

// Audit lists audit rows, newest first.
func (o *Outbox) Audit(ctx context.Context, p AuditParams, each func(AuditRow) error) (outbox.Paged, error) {
	return auditPage(ctx, o, p, "SELECT "+auditColumns+" FROM outbox_audit AS a WHERE ", each, func(r AuditRow) int64 { return r.ID })
}

// auditPage passes a part of the trail to each. query lacks the conditions of the params; number is
// that of the audit row.
func auditPage[T any](ctx context.Context, o *Outbox, p AuditParams, query string, each func(T) error,
	number func(T) int64) (paged outbox.Paged, err error) {
	if err := p.Check(); err != nil {
		return paged, err
	}
	if p.ID != "" {
		if p.ID, err = o.EventID(ctx, p.ID); err != nil {
			return paged, err
		}
	}
	before, err := p.before()
	if err != nil {
		return paged, err
	}
	last, more, err := outbox.ReadPages(p.Limit, each, func(n int) ([]T, error) {
		where, args := p.conditions(before)
		args = append(args, n)
		rows, err := outbox.Rows[T](ctx, o.DB, readAudit, fmt.Sprintf("%s%s ORDER BY a.id DESC LIMIT $%d", query, where, len(args)), args...)
		if len(rows) > 0 {
			before = number(rows[len(rows)-1])
		}
		return rows, err
	})
	if more {
		paged.Next = strconv.FormatInt(number(last), 10)
	}
	return paged, err
}

// readAudit is what an error was met at.
const readAudit = "read the audit trail"

const auditColumns = `a.id, a.at, a.actor, a.db_user, a.action, coalesce(a.note, '') AS note, a.affected,
       CASE jsonb_typeof(a.detail -> 'eventIds') WHEN 'array' THEN CASE jsonb_array_length(a.detail -> 'eventIds') WHEN 1 THEN a.detail -> 'eventIds' ->> 0 END END AS event_id,
       coalesce((a.detail - 'eventIds' - 'dlqIds')::text, '{}') AS detail`

// conditions are the params as SQL about the row a. The event's, where it is asked for, is the
// first.
func (p AuditParams) conditions(before int64) (where string, args []any) {
	all := []string{"true"}
	add := func(format string, value any) {
		args = append(args, value)
		all = append(all, fmt.Sprintf(format, len(args)))
	}
	if p.ID != "" {
		add("a.detail -> 'eventIds' @> jsonb_build_array($%d::text)", p.ID)
	}
	if p.Actor != "" {
		add("a.actor = $%d", p.Actor)
	}
	if p.Action != "" {
		add("a.action = $%d", p.Action)
	}
	if p.DeadLetters {
		all = append(all, "a.action LIKE 'dlq.%'")
	}
	if p.RunID != "" {
		run, _ := parseRun(p.RunID) // callers of the SQL functions may name runs as they like
		n := len(args)
		args = append(args, run.number, run.first, run.last)
		all = append(all, fmt.Sprintf(ofRun, n+1, n+2, n+3))
	}
	if !p.Since.IsZero() {
		add("a.at >= $%d::timestamptz", p.Since)
	}
	if !p.Until.IsZero() {
		add("a.at < $%d::timestamptz", p.Until)
	}
	if before > 0 {
		add("a.id < $%d::bigint", before)
	}
	return strings.Join(all, " AND "), args
}

// By outbox_audit_events_idx.
const selectEventAudit = `
SELECT ` + auditColumns + `
  FROM outbox_audit AS a
 WHERE a.detail -> 'eventIds' @> jsonb_build_array($1::text)
 ORDER BY a.at, a.id`

// EventAudit reads what operators did to an event, oldest first.
func (o *Outbox) EventAudit(ctx context.Context, eventID string) ([]AuditRow, error) {
	return outbox.Rows[AuditRow](ctx, o.DB, readAudit, selectEventAudit, eventID)
}

// AuditRun is one change as the operator who made it sees it: all transactions of a replay, not
// each of them.
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

// A run is told by its newest row; outbox_audit_run_idx finds whether there is a newer one, and the
// others.
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
	newest := newestOfItsRun
	if p.ID != "" {
		newest = newestWithTheEvent
	}
	return auditPage(ctx, o, p, "SELECT "+auditRunColumns+" FROM "+auditRunFrom+" WHERE "+newest+" AND ", each,
		func(r AuditRun) int64 { return r.Last })
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

// runName is what a person calls a run by.
type runName struct {
	number      int64
	first, last string
}

// parseRun reads the id of a run, its beginning, or the number of an audit row, which may be as
// long as a beginning. With the error it is the text itself.
func parseRun(run string) (runName, error) {
	name := runName{first: run, last: run}
	number, notNumber := strconv.ParseInt(run, 10, 64)
	name.number = number
	id, err := outbox.ParseID(run)
	switch {
	case err == nil:
		name.first, name.last = id, id
		if first, last, err := outbox.IDRange(id); err == nil {
			name.first, name.last = first, last
		}
	case notNumber != nil:
		return name, fault.Hint(fault.Usagef("%q is not a run: it is an id, its beginning, or the number of an audit row", run), "outboxctl audit lists the runs")
	}
	return name, nil
}

// ofRun is a condition on the audit row a, with the places of a runName's fields: it is of the run,
// or has the number.
const ofRun = `(a.id = $%[1]d::bigint OR a.detail ->> 'runId' >= $%[2]d::text AND a.detail ->> 'runId' <= $%[3]d::text
       OR a.detail ->> 'runId' = (SELECT n.detail ->> 'runId' FROM outbox_audit AS n WHERE n.id = $%[1]d::bigint))`

const selectAuditRun = `
SELECT ` + auditRunColumns + `, coalesce((a.detail - 'eventIds' - 'dlqIds')::text, '{}') AS detail,
       ARRAY(SELECT DISTINCT e FROM outbox_audit AS b, jsonb_array_elements_text(CASE jsonb_typeof(b.detail -> 'eventIds') WHEN 'array' THEN b.detail -> 'eventIds' ELSE '[]' END) AS e
              WHERE b.id = a.id OR b.detail ->> 'runId' = a.detail ->> 'runId' ORDER BY e) AS event_ids
  FROM ` + auditRunFrom + `
 WHERE %s AND ` + newestOfItsRun + `
 ORDER BY a.id DESC LIMIT $4`

// AuditRun finds a change by its run, the beginning of one, or the number of an audit row.
func (o *Outbox) AuditRun(ctx context.Context, run string) (*AuditRunResult, error) {
	name, err := parseRun(run)
	if err != nil {
		return nil, err
	}
	found, err := outbox.Rows[AuditRunResult](ctx, o.DB, readAudit, fmt.Sprintf(selectAuditRun, fmt.Sprintf(ofRun, 1, 2, 3)),
		name.number, name.first, name.last, outbox.NamedCandidates)
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

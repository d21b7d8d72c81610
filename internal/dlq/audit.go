package dlq

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// AuditRow is one change an operator made. The ids of the events it touched
// are left out of Detail.
type AuditRow struct {
	ID       int64           `json:"id"`
	At       time.Time       `json:"at"`
	Actor    string          `json:"actor"`
	DBUser   string          `json:"dbUser"`
	Action   string          `json:"action"`
	Reason   string          `json:"reason"`
	Affected int64           `json:"affected"`
	Detail   json.RawMessage `json:"detail"`
}

func scanAudit(row pgx.CollectableRow) (AuditRow, error) {
	var a AuditRow
	var detail string
	err := row.Scan(&a.ID, &a.At, &a.Actor, &a.DBUser, &a.Action, &a.Reason, &detail, &a.Affected)
	a.Detail = json.RawMessage(detail)
	return a, err
}

// AuditFilter selects audit rows.
type AuditFilter struct {
	Actor   string
	Action  string
	EventID string
	RunID   string
	Since   time.Time
	Until   time.Time
	// Before returns only rows with a lower id; 0 starts at the newest.
	Before int64
}

// Audit lists audit rows, newest first.
func (s *Store) Audit(ctx context.Context, f AuditFilter, limit int) ([]AuditRow, error) {
	var args []any
	where := []string{"true"}
	add := func(format string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf(format, len(args)))
	}
	if f.Actor != "" {
		add("a.actor = $%d", f.Actor)
	}
	if f.Action != "" {
		add("a.action = $%d", f.Action)
	}
	if f.EventID != "" {
		add("a.detail -> 'eventIds' @> jsonb_build_array($%d::text)", f.EventID)
	}
	if f.RunID != "" {
		add("a.detail ->> 'runId' = $%d", f.RunID)
	}
	if !f.Since.IsZero() {
		add("a.at >= $%d::timestamptz", f.Since)
	}
	if !f.Until.IsZero() {
		add("a.at < $%d::timestamptz", f.Until)
	}
	if f.Before > 0 {
		add("a.id < $%d::bigint", f.Before)
	}
	args = append(args, limit)
	sql := fmt.Sprintf("SELECT %s FROM outbox_audit AS a WHERE %s ORDER BY a.id DESC LIMIT $%d",
		auditColumns, strings.Join(where, " AND "), len(args))
	rows, err := collect(ctx, s.db, scanAudit, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read the audit trail: %w", err)
	}
	return rows, nil
}

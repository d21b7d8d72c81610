package cleanup_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cleanup"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

type auditRow struct {
	ID                  int64
	Actor, Action, Note string
	Affected            int64
	Detail              json.RawMessage
}

// audits lists the audit rows of cleanups, oldest first.
func audits(t *testing.T, pool *pgxpool.Pool) []auditRow {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT id, actor, action, coalesce(note, ''), affected, detail FROM outbox_audit WHERE action LIKE 'cleanup%' ORDER BY id`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[auditRow])
	require.NoError(t, err)
	return all
}

// record writes n audit rows of that age.
func record(t *testing.T, pool *pgxpool.Pool, n int, action string, age time.Duration) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `INSERT INTO outbox_audit (actor, action, at) SELECT 'op', $2, now() - $3::interval FROM generate_series(1, $1)`, n, action, age)
	require.NoError(t, err)
}

// However many batches and kinds a run has, it leaves one row that says what it removed.
func TestARunLeavesOneAuditRow(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 2500, "published", 31*day)
	for range 2 {
		deadLetter(t, pool, "discarded", 91*day)
	}
	deadLetter(t, pool, "replayed", 91*day)
	remember(t, pool, 1200, "billing", 60*day)
	record(t, pool, 7, "dlq.replay", 400*day)
	result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{
		OlderThan: ptr(30 * day), DLQOlderThan: ptr(90 * day), InboxOlderThan: ptr(60 * day), AuditOlderThan: ptr(365 * day), Actor: "tester", Note: "retention",
	})
	require.NoError(t, err)
	require.Greater(t, result.Batches, 5)
	require.Equal(t, cleanup.Result{Events: 2500, DLQ: 3, DeadEvents: 2, Inbox: 1200, Audit: 7, Batches: result.Batches, Longest: result.Longest}, result)

	rows := audits(t, pool)
	require.Len(t, rows, 1)
	type part struct {
		OlderThan       time.Time
		Deleted, Events int64
	}
	var detail struct {
		RunID                     string
		Events, DLQ, Inbox, Audit part
	}
	require.NoError(t, json.Unmarshal(rows[0].Detail, &detail))
	require.NotEmpty(t, detail.RunID)
	for _, p := range []*part{&detail.Events, &detail.DLQ, &detail.Inbox, &detail.Audit} {
		require.False(t, p.OlderThan.IsZero())
		p.OlderThan = time.Time{}
	}
	require.Equal(t, [4]part{{Deleted: 2500}, {Deleted: 3, Events: 2}, {Deleted: 1200}, {Deleted: 7}},
		[4]part{detail.Events, detail.DLQ, detail.Inbox, detail.Audit})
	require.Equal(t, auditRow{ID: rows[0].ID, Actor: "tester", Action: "cleanup", Note: "retention", Affected: 3710, Detail: rows[0].Detail}, rows[0])
}

// What a run that ended early removed is in its row all the same.
func TestAnInterruptedRunHasItsAuditRow(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	fill(t, pool, 2500, "published", 31*day)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := cleanup.New(pool).Run(ctx, cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester", Pause: time.Hour, OnBatch: func(cleanup.Batch) { stop() }})
	require.ErrorIs(t, err, context.Canceled)
	_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester"})
	require.NoError(t, err)
	rows := audits(t, pool)
	require.Len(t, rows, 2)
	require.Equal(t, [2]int64{1000, 1500}, [2]int64{rows[0].Affected, rows[1].Affected})

	// Nor can another transaction count in its row.
	for _, actor := range []string{"other", "tester"} {
		fill(t, pool, 1, "published", 31*day)
		_, err = pool.Exec(t.Context(), `SELECT outbox_cleanup('events', now(), NULL, 10, $1, NULL, '{}', $2)`, actor, rows[0].ID)
		if actor == "tester" {
			require.NoError(t, err)
			continue
		}
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		require.Equal(t, []string{"OX300", "run"}, []string{pg.Code, pg.ColumnName})
	}
}

func TestOldAuditRowsGo(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	record(t, pool, 2500, "dlq.replay", 366*day)
	record(t, pool, 3, "consumer.forget", 366*day)
	record(t, pool, 5, "dlq.replay", 364*day)
	params := cleanup.Params{AuditOlderThan: ptr(365 * day), Actor: "tester"}
	plan, err := cleanup.New(pool).Plan(t.Context(), params)
	require.NoError(t, err)
	require.Equal(t, []cleanup.Count{{Action: new("consumer.forget"), Count: 3}, {Action: new("dlq.replay"), Count: 2500}}, plan.Audit)
	result, err := cleanup.New(pool).Run(t.Context(), params)
	require.NoError(t, err)
	require.EqualValues(t, 2503, result.Audit)
	require.Equal(t, 5, count(t, pool, "outbox_audit WHERE action = 'dlq.replay'"))
	require.Len(t, audits(t, pool), 1)

	// Who is audited cannot wipe out what he did yesterday, whichever way he tries.
	for _, age := range []time.Duration{0, cleanup.MinAuditAge - time.Minute} {
		_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{AuditOlderThan: ptr(age), Actor: "tester"})
		require.ErrorContains(t, err, "is less than 7d")
		_, err = pool.Exec(t.Context(), `SELECT outbox_cleanup('audit', now() - $1::interval, NULL, 10, 'tester', NULL, '{}', NULL)`, age)
		require.ErrorContains(t, err, "audit rows are kept for at least 7 days")
	}
	_, err = pool.Exec(t.Context(), `DELETE FROM outbox_audit WHERE at < now() - interval '300 days'`)
	require.ErrorContains(t, err, "OX101")
	_, err = cleanup.New(pool).Run(t.Context(), cleanup.Params{AuditOlderThan: ptr(cleanup.MinAuditAge), Actor: "tester"})
	require.NoError(t, err)
	require.Equal(t, 0, count(t, pool, "outbox_audit WHERE action = 'dlq.replay'"))
}

// A function planted in the schema is not called instead of what is meant.
func TestCleanupCallsNothingThatWasPlanted(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	for _, signature := range []string{
		"hashtextextended(text, int)",
		"outbox_cleanup(text, timestamptz, timestamptz, bigint, text, text, text, bigint)",
		"outbox_cleanup(text, timestamptz, timestamptz, int, text, text, jsonb, int)",
		"outbox_cleanup(text, timestamptz, timestamptz, int, text, text, text, text)",
	} {
		_, err := pool.Exec(t.Context(), `CREATE FUNCTION `+signature+` RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked''; END'`)
		require.NoError(t, err)
	}
	fill(t, pool, 3, "published", 31*day)
	result, err := cleanup.New(pool).Run(t.Context(), cleanup.Params{OlderThan: ptr(30 * day), Actor: "tester"})
	require.NoError(t, err)
	require.EqualValues(t, 3, result.Events)
}

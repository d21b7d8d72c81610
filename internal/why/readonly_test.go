package why_test

import (
	"testing"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// A connection whose default is to write nothing keeps it: no change may ask for a transaction that writes all the same.
func TestNoChangeOverridesAReadOnlyDefault(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	letter := deadLetter(t, db, "max_attempts")
	writing := dlq.New(db.Pool, registry.New())
	params := dlq.ChangeParams{Action: dlq.Replay, IDs: []string{letter}, Actor: "ann"}
	plan, err := writing.PlanChange(t.Context(), params, dlq.PlanParams{})
	require.NoError(t, err)

	cfg := db.Pool.Config()
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	box := dlq.New(pool, registry.New())
	pause := outbox.PauseParams{Kind: "type", Value: "order_created", Actor: "ann"}
	for name, change := range map[string]func() error{
		"plan": func() error { _, err := box.PlanChange(t.Context(), params, dlq.PlanParams{}); return err },
		"run": func() error {
			_, err := box.RunPlan(t.Context(), dlq.RunParams{ID: plan.ID, Runner: "ann"})
			return err
		},
		"stop":    func() error { return box.StopPlan(t.Context(), plan.ID, "ann") },
		"abandon": func() error { return box.AbandonPlan(t.Context(), plan.ID, "ann") },
		"pause":   func() error { _, err := box.Pause(t.Context(), pause); return err },
		"resume":  func() error { _, err := box.Resume(t.Context(), pause); return err },
	} {
		var answer *pgconn.PgError
		require.ErrorAs(t, change(), &answer, name)
		require.Equal(t, pgerrcode.ReadOnlySQLTransaction, answer.Code, name)
	}
	var n int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM outbox_audit) + (SELECT count(*) FROM outbox_pauses) + (SELECT count(*) FROM outbox_plans WHERE state <> 'ready')`).Scan(&n))
	require.Zero(t, n)
}

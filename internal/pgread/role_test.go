package pgread_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
)

func TestCheckReadRole(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	require.NoError(t, pgread.CheckRole(t.Context(), db.Pool, "outbox_viewer"))
	err := pgread.CheckRole(t.Context(), db.Pool, "no_such_role")
	require.ErrorContains(t, err, "no such role")
	require.Contains(t, fault.HintOf(err), "migrate")

	second := outboxtest.EmptyDB(t)
	require.NoError(t, pgread.CheckRole(t.Context(), second.Pool, "outbox_viewer"), "there is nothing to read yet")
	_, err = migrate.Up(t.Context(), second.Pool, migrate.Options{})
	require.NoError(t, err)
	err = pgread.CheckRole(t.Context(), second.Pool, "outbox_viewer")
	require.ErrorIs(t, err, pgread.ErrNoRights)
	require.Contains(t, fault.HintOf(err), "migrate grants --viewer outbox_viewer")

	config := db.Pool.Config()
	config.ConnConfig.RuntimeParams["role"] = "outbox_emitter"
	lesser, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(lesser.Close)
	err = pgread.CheckRole(t.Context(), lesser, "outbox_viewer")
	require.ErrorContains(t, err, "not a member")
	require.Contains(t, fault.HintOf(err), "GRANT outbox_viewer")
}

func TestAPrimaryIsNotBehind(t *testing.T) {
	t.Parallel()
	behind, err := pgread.Behind(t.Context(), outboxtest.DB(t).Pool)
	require.NoError(t, err)
	require.Zero(t, behind)
}

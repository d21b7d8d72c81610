package operate_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestCheckReadRole(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	box := operate.New(db.Pool, nil)
	require.NoError(t, box.CheckReadRole(t.Context(), "outbox_viewer"))
	err := box.CheckReadRole(t.Context(), "no_such_role")
	require.ErrorContains(t, err, "no such role")
	require.Contains(t, fault.HintOf(err), "migrate")

	second := outboxtest.EmptyDB(t)
	require.NoError(t, operate.New(second.Pool, nil).CheckReadRole(t.Context(), "outbox_viewer"), "there is nothing to read yet")
	_, err = migrate.Up(t.Context(), second.Pool, migrate.Options{})
	require.NoError(t, err)
	err = operate.New(second.Pool, nil).CheckReadRole(t.Context(), "outbox_viewer")
	require.ErrorIs(t, err, operate.ErrNoRights)
	require.Contains(t, fault.HintOf(err), "migrate grants --viewer outbox_viewer")

	config := db.Pool.Config()
	config.ConnConfig.RuntimeParams["role"] = "outbox_emitter"
	lesser, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(lesser.Close)
	err = operate.New(lesser, nil).CheckReadRole(t.Context(), "outbox_viewer")
	require.ErrorContains(t, err, "not a member")
	require.Contains(t, fault.HintOf(err), "GRANT outbox_viewer")
}

func TestAPrimaryIsNotBehind(t *testing.T) {
	t.Parallel()
	behind, err := operate.New(outboxtest.DB(t).Pool, nil).Behind(t.Context())
	require.NoError(t, err)
	require.Zero(t, behind)
}

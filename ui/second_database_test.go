package ui_test

import (
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/migrations"
	"github.com/outboxctl/outboxctl/ui"
)

// Roles belong to the server, their rights to a database: in the second one the viewer's role exists and may read nothing.
func TestTheSecondDatabaseOfAServer(t *testing.T) {
	t.Parallel()
	db := outboxtest.EmptyDB(t)
	exec := func(sql string) {
		t.Helper()
		_, err := db.Pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	_, err := migrate.Up(t.Context(), db.Pool, migrate.Options{})
	require.NoError(t, err)
	exec(world)
	viewer, login := "viewer_of_"+db.Name, "page_of_"+db.Name
	exec("CREATE ROLE " + viewer)
	exec("CREATE ROLE " + login + " LOGIN PASSWORD 'page' IN ROLE " + viewer)
	statements, err := migrate.Grants(migrations.FS, map[string]string{"outbox_viewer": viewer})
	require.NoError(t, err)
	for _, s := range statements {
		exec(s)
	}
	config := db.Pool.Config().Copy()
	config.ConnConfig.User, config.ConnConfig.Password = login, "page"
	lesser, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(lesser.Close)
	b := &bundle{t: t, db: db}
	own := "has no rights in this database, so this page reads with its login's own"
	for name, tc := range map[string]struct {
		pool *pgxpool.Pool
		role string
		says bool
	}{
		"a superuser":                     {db.Pool, "", true},
		"a login of this database":        {lesser, "", true},
		"a role of this database":         {lesser, viewer, false},
		"a superuser, with a role it has": {db.Pool, viewer, false},
	} {
		page := setup2(t, b, tc.role, func(c *ui.Config) { c.ReadPool = tc.pool })
		status, _, body := page.get("/dead-letters")
		require.Equal(t, http.StatusOK, status, "%s: %s", name, body)
		require.Eventually(t, func() bool { status, _, _ := page.get("/readyz"); return status == http.StatusOK }, waitFor, tick, name)
		for _, address := range []string{"/", "/dead-letters", "/events", "/events/" + eventID, "/audit", "/plans", "/causes", "/topics"} {
			status, _, body := page.get(address)
			require.Equal(t, http.StatusOK, status, "%s %s", name, address)
			require.NotContains(t, body, "permission denied", address)
			require.NotContains(t, body, secret, address)
			if tc.says {
				require.Contains(t, body, own, address)
				require.Contains(t, body, "outboxctl migrate grants --viewer", address)
			} else {
				require.NotContains(t, body, "login's own", address)
			}
		}
	}
}

package ui_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/ui"
)

// Route × role: with the rights of an operator the addresses that change something work. With those of any other role, or none, each
// refuses with the server's reason and changes nothing, whoever is signed in.
func TestRouteRoleMatrix(t *testing.T) {
	roles := append(migrate.Roles(), "outbox_ui_nobody")
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			redis := outboxtest.Redis(t)
			b := setup(t, func(c *ui.Config) {
				operators(c)
				c.Payloads, c.Redis = ui.PayloadsReveal, redis.Client
				if role == "outbox_ui_nobody" {
					_, err := c.ReadPool.Exec(t.Context(), "CREATE ROLE "+role)
					require.NoError(t, err)
					t.Cleanup(func() {
						_, err := outboxtest.DB(t).Pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+role)
						require.NoError(t, err)
					})
				}
				changing := c.ReadPool.Config()
				changing.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
					_, err := conn.Exec(ctx, "SET ROLE "+role)
					return err
				}
				var err error
				c.Pool, err = pgxpool.NewWithConfig(t.Context(), changing)
				require.NoError(t, err)
				t.Cleanup(c.Pool.Close)
			})
			require.NoError(t, redis.Client.Set(t.Context(), "pf:evt:processed:shop:"+eventID, "done:x:1:y", 0).Err())
			_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_consumer_failures (consumer, event_id, event_type, namespace, subscription, state, attempts, last_error)
				VALUES ('mailer', $1::text::uuid, 't', 'n', 's', 'gave_up', 1, 'e')`, eventID)
			require.NoError(t, err)
			box := dlq.New(b.db.Pool, registry.New())
			plan := func() string {
				set, err := box.ChooseChange(t.Context(), dlq.ChangeParams{Action: dlq.Discard, IDs: []string{deadID}, Actor: "ann", Note: "x"})
				require.NoError(t, err)
				plan, err := set.Plan(t.Context(), dlq.PlanParams{})
				require.NoError(t, err)
				return plan.ID
			}
			plans := map[string]string{} // one for each address, made before any of them runs
			for _, call := range ui.ChangePaths() {
				plans[call] = plan()
			}
			for _, path := range ui.ChangePaths() {
				id := plans[path]
				switch {
				case strings.HasPrefix(path, "/events/"):
					id = eventID
				case strings.HasPrefix(path, "/dead-letters/"):
					id = deadID
				}
				var database string
				require.NoError(t, b.db.Pool.QueryRow(t.Context(), `SELECT current_database()`).Scan(&database))
				body, known := map[string]string{
					"/plans":                      "action=discard&note=x&ids=" + deadID,
					"/plans/{id}/run":             "confirm.count=1&note=x&confirm.database=" + database,
					"/plans/{id}/stop":            "",
					"/plans/{id}/abandon":         "",
					"/events/{id}/forget":         "consumer=shop&confirm=shop&note=x",
					"/audit/{run}/undo":           "",
					"/dead-letters/{id}/edit":     "note=x&send=1&data=" + url.QueryEscape(rightOrder),
					"/consumers/{consumer}/retry": "note=x",
					"/topics/{topic}/pause":       "note=x",
					"/topics/{topic}/resume":      "note=x",
					"/dead-letters/{id}/reveal":   "note=x",
					"/events/{id}/reveal":         "note=x",
				}[path]
				require.True(t, known, "give %s a form with which it changes something", path)
				const state = `SELECT (SELECT count(*) FROM outbox_audit) + (SELECT count(*) FROM outbox_pauses) + (SELECT count(*) FROM outbox_plans)
					+ 100 * (SELECT count(*) FROM outbox_plans WHERE state = 'abandoned' OR started_at IS NOT NULL)`
				if strings.HasSuffix(path, "/edit") { // another address has discarded it
					_, err := b.db.Pool.Exec(t.Context(), `UPDATE outbox_dlq SET state = 'open' WHERE id = $1`, deadID)
					require.NoError(t, err)
				}
				before := b.count(state)
				status, _, text := b.send(http.MethodPost, strings.NewReplacer("{id}", id, "{topic}", "domain", "{consumer}", "mailer", "{run}", b.discarded()).Replace(path), formType, body)
				// A plan that was not started is not stopped, whoever asks.
				never := strings.HasSuffix(path, "/stop")
				if role == "outbox_operator" {
					require.Equal(t, never, status >= http.StatusBadRequest, "%s: %d %s", path, status, text)
					continue
				}
				require.GreaterOrEqual(t, status, http.StatusBadRequest, "%s: %s", path, text)
				require.True(t, never || strings.Contains(text, "may not do that"), "%s: %d %s", path, status, text)
				require.Equal(t, before, b.count(state), path)
				require.EqualValues(t, 1, redis.Client.Exists(t.Context(), "pf:evt:processed:shop:"+eventID).Val(), path)
			}
		})
	}
}

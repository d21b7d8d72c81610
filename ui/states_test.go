package ui_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	waitFor = 2 * time.Minute // figures that cost much come once a minute
	tick    = 10 * time.Millisecond
)

// A page starts before its database answers, and says so.
func TestAPageWithoutADatabase(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody:hunter2@127.0.0.1:1/nothing?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	handler, err := ui.New(ui.Config{ReadPool: pool, Identify: func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "ann"}, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, handler.Shutdown(context.WithoutCancel(t.Context()))) })
	for address, want := range map[string]int{"/": 200, "/causes": 200, "/topics": 200, "/dead-letters": 503, "/parts/events": 503, "/healthz": 200, "/readyz": 503} {
		answer := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		request.Host = "localhost"
		handler.ServeHTTP(answer, request)
		require.Equal(t, want, answer.Code, "%s: %s", address, answer.Body)
		require.NotContains(t, answer.Body.String(), "hunter2")
	}
}

// A question that the database does not answer in time is given up, and can be asked again.
func TestAQuestionThatTakesTooLong(t *testing.T) {
	b := setup(t, nil)
	tx, err := b.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE outbox_audit IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)
	hurried := setup2(t, b, "", func(c *ui.Config) { c.QueryTimeout = 50 * time.Millisecond })
	who := fmt.Sprintf("locked by pid %d (%s)", tx.Conn().PgConn().PID(), t.Name())
	status, header, body := hurried.get("/audit")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotEmpty(t, header.Get("Retry-After"))
	require.Contains(t, body, "The database does not answer")
	require.Contains(t, body, who)
	require.Contains(t, body, "SELECT pg_terminate_backend(")
}

// hinder lets every statement of a viewer that groups dead letters by fingerprint end as one that takes too long.
const hinder = `
CREATE FUNCTION in_time() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF current_query() LIKE '%fingerprint%' AND current_query() LIKE '%GROUP BY%' THEN
        RAISE query_canceled USING MESSAGE = 'canceling statement due to statement timeout';
    END IF;
    RETURN true;
END
$$;
ALTER TABLE outbox_dlq ENABLE ROW LEVEL SECURITY;
CREATE POLICY in_time ON outbox_dlq FOR SELECT TO outbox_viewer USING (in_time());
UPDATE outbox_dlq SET state = 'open'`

// One grouping that takes too long costs the page no other figure: its last value stays, and is called old.
func TestAGroupingThatTakesTooLong(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), hinder)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, body := b.get("/causes?by=reason")
		return strings.Contains(body, `data-label="Open">2</td>`)
	}, waitFor, tick, "the others are new")
	for _, address := range []string{"/", "/causes"} {
		_, _, body := b.get(address)
		require.Contains(t, body, `longer than ui.query_timeout allows: they were counted <time`, address)
		require.Contains(t, body, `data-label="Open">1</td>`, address)
	}
	_, _, body := b.get("/causes?by=reason")
	require.NotContains(t, body, "ui.query_timeout")
	status, _, _ := b.get("/readyz")
	require.Equal(t, http.StatusOK, status)

	late := setup2(t, b, "")
	require.Eventually(t, func() bool { status, _, _ := late.get("/readyz"); return status == http.StatusOK }, waitFor, tick)
	_, _, body = late.get("/causes")
	require.Contains(t, body, "longer than ui.query_timeout allows.")
	require.NotContains(t, body, "No dead letter is open")
}

// The role of a viewer is what keeps payloads from the page, not the page's own restraint.
func TestThePageReadsAsAViewer(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), `REVOKE SELECT ON outbox_audit FROM outbox_viewer`)
	require.NoError(t, err)
	status, _, body := b.get("/audit")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, body, "migrate grants")

	own := setup2(t, b, "-")
	status, _, body = own.get("/audit")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "reads with its login's own rights")
}

// The catalogue, too, is read as a viewer.
func TestTheCatalogueIsReadAsAViewer(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), `REVOKE SELECT ON outbox_catalogue FROM outbox_viewer`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, body := b.get("/")
		return strings.Contains(body, "may not do that: permission denied for table outbox_catalogue") && strings.Contains(body, "migrate grants")
	}, waitFor, tick)
}

// An outbox whose schema has no catalogue yet shows its figures with the built-in event types.
func TestAnOutboxWithoutACatalogue(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), `ALTER TABLE outbox_catalogue RENAME TO outbox_catalogue_later`)
	require.NoError(t, err)
	late := setup2(t, b, "")
	require.Eventually(t, func() bool { status, _, _ := late.get("/readyz"); return status == http.StatusOK }, waitFor, tick)
	_, _, body := late.get("/catalogue")
	require.Contains(t, body, "order_canceled")
}

// setup2 serves a second page over the same database with another role.
func setup2(t *testing.T, b *bundle, role string, changes ...func(*ui.Config)) *bundle {
	t.Helper()
	cfg := ui.Config{ReadPool: b.db.Pool, ReadRole: role, Identify: func(*http.Request) (ui.Identity, error) { return ui.Identity{}, nil }}
	for _, change := range changes {
		change(&cfg)
	}
	handler, err := ui.New(cfg)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, handler.Shutdown(context.WithoutCancel(t.Context())))
	})
	return &bundle{t: t, db: b.db, url: server.URL}
}

func TestSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	who := func(*http.Request) (ui.Identity, error) { return ui.Identity{}, nil }
	for want, cfg := range map[string]ui.Config{
		"must be set": {ReadPool: pool},
		"is none of":  {ReadPool: pool, Identify: who, Color: "pink"},
		"BasePath":    {ReadPool: pool, Identify: who, BasePath: "ops"},
	} {
		_, err := ui.New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// An outbox with nothing in it says what would be there.
func TestAnEmptyOutbox(t *testing.T) {
	t.Parallel()
	b := setup2(t, &bundle{db: outboxtest.DB(t)}, "")
	require.Eventually(t, func() bool { status, _, _ := b.get("/readyz"); return status == http.StatusOK }, waitFor, tick)
	for address, want := range map[string]string{
		"/": "No publisher is alive.", "/causes": "When events die, their causes are listed here.", "/dead-letters": "Events that cannot be published are listed here.",
		"/events": "No event is in this state.", "/plans": "--plan</code> makes one", "/audit": "No operator has changed anything yet.", "/topics": "<code>outboxctl publish</code> starts one.",
	} {
		status, _, body := b.get(address)
		require.Equal(t, http.StatusOK, status, address)
		require.Contains(t, body, want, address)
	}
}

// A filter that nothing matches is told from an outbox that has nothing.
func TestAFilterWithoutAMatch(t *testing.T) {
	b := setup(t, nil)
	for address, want := range map[string]string{
		"/dead-letters?type=ad_created": "No dead letter matches these filters.", "/events?type=ad_created": "No event matches these filters.", "/audit?actor=nobody": "No change matches these filters.",
	} {
		_, _, body := b.get(address)
		require.Contains(t, body, want, address)
		require.Contains(t, body, "Remove the filter", address)
	}
}

// A search that has looked at enough rows for one request says so and goes on from there.
func TestASearchThatIsNotFinished(t *testing.T) {
	b := setup(t, nil)
	b.handler.LookAt(1000)
	_, err := b.db.Pool.Exec(t.Context(), more, 6_000, 1)
	require.NoError(t, err)
	_, _, page := b.get("/dead-letters?error-like=no*such")
	require.Contains(t, page, "The search has looked at 2,500 rows and is not finished", "its windows have 500 and 2,000")
	found := false
	for next := "/dead-letters?error-like=no*such"; next != ""; {
		_, _, page = b.get(next)
		found = found || strings.Contains(page, "no such topic")
		next = ""
		if strings.Contains(page, "is not finished") {
			next = linked(t, page, `class="button" href="([^"]*)">Continue the search<`)
		}
	}
	require.True(t, found, "what it looked for comes last")
}

// An event that cleanup has removed is missed by name on the page of its dead letter, which stays.
func TestARowThatCleanupRemoved(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), `SET session_replication_role = replica; DELETE FROM outbox_events WHERE id = '`+eventID+`'; RESET session_replication_role`)
	require.NoError(t, err)
	status, _, body := b.get("/dead-letters/" + deadID)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "(removed by cleanup)")
	status, _, body = b.get("/events/" + eventID)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "Not found")
}

// A schema that lacks what this version reads is named with its remedy, and the last figures stay.
func TestASchemaThatIsOld(t *testing.T) {
	b := setup(t, operators)
	_, err := b.db.Pool.Exec(t.Context(), `ALTER TABLE outbox_pauses RENAME TO outbox_pauses_later`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, body := b.get("/")
		return strings.Contains(body, "schema is missing or old") && strings.Contains(body, "outboxctl migrate brings it up to date")
	}, waitFor, tick)
	_, _, body := b.get("/")
	require.Contains(t, body, "Waiting for a decision: 1 open dead letter.", "the last figures")
	_, _, body = b.get("/dead-letters/" + deadID)
	require.NotContains(t, body, `method="post"`, "changes are off")
	status, _, _ := b.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
}

// A schema that a newer version made is told as that, also where something that this one reads is gone: migrating would
// be the wrong advice.
func TestASchemaThatIsNewer(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_schema_version (version_id, is_applied) VALUES (9000, true)`)
	require.NoError(t, err)
	told := func() bool {
		_, _, body := b.get("/causes")
		return strings.Contains(body, "The schema is at version 9000, this page knows") && strings.Contains(body, "Start the page with the version of outboxctl that migrated")
	}
	require.Eventually(t, told, waitFor, tick)
	status, _, body := b.get("/dead-letters")
	require.Equal(t, http.StatusOK, status, "what it knows it shows")
	require.Contains(t, body, deadID)
	_, err = b.db.Pool.Exec(t.Context(), `ALTER TABLE outbox_pauses RENAME TO outbox_pauses_later`)
	require.NoError(t, err)
	require.Eventually(t, func() bool { status, _, _ := b.get("/readyz"); return status == http.StatusServiceUnavailable }, waitFor, tick)
	require.True(t, told())
	_, _, body = b.get("/")
	require.NotContains(t, body, "outboxctl migrate brings it up to date")
}

// A page that may not read the version loses nothing but that.
func TestTheVersionMayNotBeRead(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), `REVOKE SELECT ON outbox_schema_version FROM outbox_viewer`)
	require.NoError(t, err)
	late := setup2(t, b, "")
	require.Eventually(t, func() bool { status, _, _ := late.get("/readyz"); return status == http.StatusOK }, waitFor, tick)
	_, _, body := late.get("/")
	require.NotContains(t, body, "The schema is at version")
}

// Pub/Sub that does not answer is told by the publishers, which ask it, and found by doctor.
func TestPubSubIsAway(t *testing.T) {
	refused := errors.New("connection refused")
	b := setup(t, func(c *ui.Config) {
		c.Doctor = func(ctx context.Context) ([]ui.Finding, error) {
			return doctor.Run(ctx, doctor.Params{
				Kind:     broker.Kind{Name: "pubsub", Remedy: "check pubsub.project"},
				Database: func(context.Context) (*pgread.DB, error) { return nil, refused },
				Broker:   func(context.Context) (broker.Broker, []broker.PlannedTopic, error) { return nil, nil, refused },
				Redis:    func(context.Context) (consume.ServerReport, error) { return consume.ServerReport{}, nil },
			})
		}
	})
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_publishers (id, host, pid, version, last_seen_at, state)
		VALUES (gen_random_uuid(), 'worker-7', 1, 'v1', now() + interval '1 hour', '{"topics": [{"topic": "billing", "state": "unreachable", "error": "connection refused"}]}')`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, body := b.get("/")
		return strings.Contains(body, "Topic billing has been unreachable") && strings.Contains(body, "worker-7/1: connection refused")
	}, waitFor, tick)
	_, _, body := b.get("/topics")
	require.Regexp(t, `>billing</strong>(?s:.*?)unreachable(?s:.*?)connection refused`, body)
	_, _, body = b.get("/doctor")
	require.Regexp(t, `pubsub <span class="small">topics</span>(?s:.*?)connection refused(?s:.*?)check pubsub.project`, body)
}

// Redis that does not answer costs a page what the consumers remember, and nothing else.
func TestRedisIsAway(t *testing.T) {
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = away.Close() })
	b := setup(t, func(c *ui.Config) { c.Redis = away })
	for _, address := range []string{"/dead-letters/" + deadID, "/events/" + eventID} {
		status, _, body := b.get(address)
		require.Equal(t, http.StatusOK, status, address)
		require.Contains(t, body, "What the consumers remember is not known", address)
	}
}

// A consumer that was silent is shown for as long as its marks live, which the installation decides.
func TestConsumersAreKnownAsLongAsTheirMarksLive(t *testing.T) {
	client := outboxtest.Redis(t).Client
	silent := redis.Z{Score: float64(time.Now().Add(-consume.DefaultTTL - time.Hour).UnixMilli()), Member: "billing"}
	require.NoError(t, client.ZAdd(t.Context(), consume.ConsumersKey, silent).Err())
	b := setup(t, func(c *ui.Config) { c.Redis, c.IdempotencyTTL = client, 2*consume.DefaultTTL })
	_, _, body := b.get("/events/" + eventID)
	require.Contains(t, body, `data-label="Consumer"><bdi>billing</bdi>`)

	brief := setup2(t, b, "", func(c *ui.Config) { c.Redis = client })
	_, _, body = brief.get("/events/" + eventID)
	require.NotContains(t, body, `<bdi>billing</bdi>`)
}

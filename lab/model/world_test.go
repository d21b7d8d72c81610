package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// world is the real thing: a database, the command line, the dispatcher, the packages and functions that emit, and a broker
// that does what it is told. It knows nothing of what should come of anything.
type world struct {
	db              *outboxtest.Database
	claims, settles *pgxpool.Pool
	broker          *broker
	dir             string
	seen            int64 // the last audit row that was looked at
}

// newWorld makes a database with the first catalogues. reset returns to that.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{db: outboxtest.ShapedDB(t, outboxtest.Shapes()[1]), dir: t.TempDir(), broker: newBroker()}
	w.claims, w.settles = outboxtest.Pool(t, w.db.URL), outboxtest.Pool(t, w.db.URL)
	for _, namespace := range namespaces() {
		code, said := w.apply("setup", namespace, firstTypes(namespace))
		require.Zero(t, code, said)
	}
	_, err := w.db.Pool.Exec(t.Context(), keepSQL)
	require.NoError(t, err)
	return w
}

const (
	// keepSQL keeps a copy of every table that resetSQL puts back.
	keepSQL = `DO $$
DECLARE t text;
BEGIN
    CREATE SCHEMA kept;
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT LIKE 'goose%' LOOP
        EXECUTE format('CREATE TABLE kept.%1$I AS TABLE public.%1$I', t);
    END LOOP;
    DELETE FROM kept.outbox_audit;
END $$`
	resetSQL = `DO $$
DECLARE c record;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR c IN SELECT table_name, string_agg(quote_ident(column_name), ', ') AS names
               FROM information_schema.columns
              WHERE table_schema = 'public' AND is_generated = 'NEVER'
                AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = 'kept')
              GROUP BY table_name LOOP
        EXECUTE format('DELETE FROM public.%I', c.table_name);
        EXECUTE format('INSERT INTO public.%1$I (%2$s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM kept.%1$I', c.table_name, c.names);
    END LOOP;
END $$`
	// monthSQL makes everything a month older.
	monthSQL = `DO $$
DECLARE c record;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR c IN SELECT table_name, string_agg(format('%1$I = %1$I - interval ''31 days''', column_name), ', ') AS older
               FROM information_schema.columns
              WHERE table_schema = 'public' AND data_type LIKE 'timestamp%'
                AND table_name IN ('outbox_events', 'outbox_dlq', 'outbox_audit', 'outbox_pauses')
              GROUP BY table_name LOOP
        EXECUTE format('UPDATE public.%I SET %s', c.table_name, c.older);
    END LOOP;
END $$`
)

func (w *world) reset(ctx context.Context) error {
	w.broker, w.seen = newBroker(), 0
	_, err := w.db.Pool.Exec(ctx, resetSQL)
	return err
}

func (w *world) month(ctx context.Context) error {
	_, err := w.db.Pool.Exec(ctx, monthSQL)
	return err
}

// command runs outboxctl as one operator. A change asks nothing.
func (w *world) command(actor string, args ...string) (code int, said string) {
	var out, errs bytes.Buffer
	env := []string{"OUTBOXCTL_DATABASE_URL=" + w.db.URL, "OUTBOXCTL_ACTOR=" + actor, "HOME=" + w.dir, "XDG_CONFIG_HOME=" + w.dir, "TMPDIR=" + w.dir}
	code = cmd.Run(context.Background(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, env)
	if code != 0 {
		return code, strings.Join(append([]string{"outboxctl"}, args...), " ") + ": " + errs.String()
	}
	return code, out.String()
}

// apply records the catalogue of a namespace.
func (w *world) apply(actor, namespace string, types []*eventType) (code int, said string) {
	var text strings.Builder
	fmt.Fprintf(&text, "outbox: 1\nname: %s\nnamespace: %s\ntopics: {t0: top0, t1: top1, t2: top2}\n", namespace, namespace)
	text.WriteString("defaults: {envelope: none, aggregate: thing}\ntypes:\n")
	for _, t := range types {
		fmt.Fprintf(&text, "  %s:\n    topic: %s\n    was: [%s]\n", t.name, t.topic, strings.Join(t.was, ", "))
		text.WriteString("    schema: {type: object, required: [n], properties: {n: {type: integer}, poison: {type: boolean}}}\n")
	}
	file := filepath.Join(w.dir, namespace+".yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return 1, err.Error()
	}
	return w.command(actor, "registry", "apply", file, "--yes")
}

// emission is an event that a producer wants.
type emission struct {
	namespace, eventType, tenant, dedupe string
	// key is the ordering key that the producer chooses; byAggregate derives it.
	key         string
	byAggregate bool
	aggregate   string
	data        string
}

// The ways to emit. Plain INSERT is the only one that checks nothing.
const (
	byGo     = "Go"
	bySQL    = "outbox_emit"
	byCLI    = "outboxctl emit"
	byInsert = "INSERT"
)

// emit returns the event's id, and whether it was there before.
func (w *world) emit(ctx context.Context, how string, e emission) (id string, already bool, err error) {
	switch how {
	case byGo:
		return w.emitGo(ctx, e)
	case byCLI:
		return w.emitCLI(e)
	case bySQL:
		key := e.key
		err = w.db.Pool.QueryRow(ctx, `SELECT id::text, already_enqueued FROM outbox_emit($1::text, NULL, $2::text, $3::text::jsonb, dedupe_key => nullif($4::text, ''),
			tenant_id => nullif($5::text, '')::uuid, namespace => $6::text, ordering_key => nullif($7::text, ''))`,
			e.eventType, e.aggregate, e.data, e.dedupe, e.tenant, e.namespace, key).Scan(&id, &already)
		return id, already, err
	default:
		key := ""
		if e.key != "" {
			key = e.namespace + "/" + e.key
		}
		err = w.db.Pool.QueryRow(ctx, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, tenant_id, namespace, ordering_key)
			VALUES (outbox_uuid_v7(), $1::text, 'thing', $2::text, $3::text::jsonb, nullif($4::text, '')::uuid, $5::text, nullif($6::text, '')) RETURNING id::text`,
			e.eventType, e.aggregate, e.data, e.tenant, e.namespace, key).Scan(&id)
		return id, false, err
	}
}

func (w *world) emitGo(ctx context.Context, e emission) (id string, already bool, err error) {
	recorded, err := catalogue.Recorded(ctx, w.db.Pool)
	if err != nil {
		return "", false, err
	}
	event := emit.Event{
		Type: e.eventType, AggregateID: e.aggregate, Data: json.RawMessage(e.data), DedupeKey: e.dedupe, Namespace: e.namespace,
		OrderingKey: e.key, ByAggregate: e.byAggregate,
	}
	if e.tenant != "" {
		event.TenantID = uuid.MustParse(e.tenant)
	}
	var result emit.Result
	err = pgx.BeginFunc(ctx, w.db.Pool, func(tx pgx.Tx) (err error) {
		result, err = emit.New(recorded.Catalogue).Emit(ctx, tx, event)
		return err
	})
	return result.ID.String(), result.AlreadyEnqueued, err
}

func (w *world) emitCLI(e emission) (id string, already bool, err error) {
	args := []string{"emit", "--type", e.eventType, "--aggregate-id", e.aggregate, "--data", e.data, "--namespace", e.namespace, "-o", "json"}
	for flag, value := range map[string]string{"--tenant": e.tenant, "--dedupe-key": e.dedupe, "--ordering-key": e.key} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	if e.byAggregate {
		args = append(args, "--ordered")
	}
	code, said := w.command("producer", args...)
	if code != 0 {
		return "", false, fmt.Errorf("exit %d: %s", code, said)
	}
	var emitted struct {
		ID              string
		AlreadyEnqueued bool
	}
	err = json.Unmarshal([]byte(said), &emitted)
	return emitted.ID, emitted.AlreadyEnqueued, err
}

// publish runs a dispatcher until nothing is left to claim, of one namespace or of all. It would wait some seconds for a
// topic that takes nothing: it is told to stop once the broker was asked twice for it, and all of must have been dealt with.
func (w *world) publish(ctx context.Context, namespace string, backoff time.Duration, must []string) error {
	d, err := dispatch.New(ctx, dispatch.Config{
		Claims: w.claims, Settles: w.settles, Publisher: w.broker, Namespace: namespace,
		Tuning: dispatch.Tuning{BackoffBase: backoff, BackoffMax: backoff, MaxAttempts: 100},
	})
	if err != nil {
		return err
	}
	defer d.Close()
	running, stop := context.WithTimeout(ctx, publishTimeout)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	enough := w.broker.listen()
	watching.Go(func() {
		select {
		case <-enough:
		case <-running.Done():
			return
		}
		for left := 1; left > 0; {
			if w.claims.QueryRow(running, leftSQL, must).Scan(&left) != nil {
				return // it has ended by itself, or says why it fails
			}
		}
		stop()
	})
	_, err = d.Once(running)
	if errors.Is(running.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("publishing has not ended within %s", publishTimeout)
	}
	if running.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// publishTimeout ends a dispatcher that finds work for ever. The busiest machine needs a few seconds.
const publishTimeout = time.Minute

const leftSQL = `SELECT count(*) FROM outbox_event_status WHERE id = ANY ($1::text[]::uuid[]) AND status NOT IN ('published', 'dead')`

// facts is what the database says.
type facts struct {
	Events map[string]struct {
		Type, Namespace, Status string
		Attempts                int
		BacksOff, Passed        bool
		Seq                     int64
	}
	Letters map[string]struct{ Event, Reason, State string }
	Pauses  []string
	Audit   []auditRow // since the last look
}

type auditRow struct {
	ID                 int64
	Actor, Action, Run string
	Affected           int
	Events             []string
}

const lookSQL = `SELECT json_build_object(
 'Events', coalesce((SELECT json_object_agg(id, json_build_object('Type', event_type, 'Namespace', namespace, 'Status', status, 'Attempts', attempt_count,
      'BacksOff', status = 'pending' AND next_attempt_at > now() + interval '1 minute', 'Passed', passed_at IS NOT NULL, 'Seq', seq)) FROM outbox_event_status), '{}'),
 'Letters', coalesce((SELECT json_object_agg(id, json_build_object('Event', event_id, 'Reason', error_reason, 'State', state)) FROM outbox_dlq), '{}'),
 'Pauses', coalesce((SELECT json_agg(kind || ' ' || value ORDER BY kind, value) FROM outbox_pauses WHERE until IS NULL OR until > now()), '[]'),
 'Audit', coalesce((SELECT json_agg(json_build_object('ID', id, 'Actor', actor, 'Action', action, 'Run', coalesce(detail ->> 'runId', id::text), 'Affected', affected,
      'Events', coalesce(detail -> 'eventIds', '[]')) ORDER BY id) FROM outbox_audit WHERE id > $1), '[]'))::text`

// look reads what is there.
func (w *world) look(ctx context.Context) (facts, error) {
	var text string
	if err := w.db.Pool.QueryRow(ctx, lookSQL, w.seen).Scan(&text); err != nil {
		return facts{}, err
	}
	var f facts
	err := json.Unmarshal([]byte(text), &f)
	if n := len(f.Audit); n > 0 {
		w.seen = f.Audit[n-1].ID
	}
	return f, err
}

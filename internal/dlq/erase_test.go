package dlq_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

const (
	erasedTenant    = "22222222-2222-7222-8222-222222222222"
	erasedAggregate = "11111111-1111-7111-8111-111111111111"
)

// person writes an event of the tenant with a canary in everything it carries, dead as the publisher leaves it.
func (b *bundle) person(canary string) (letter, event string) {
	b.t.Helper()
	tenant := erasedTenant
	letter, event = b.die(death{Tenant: &tenant, AggregateID: erasedAggregate, Error: "refused: " + canary})
	b.exec(`SET SESSION outboxctl.erases = 'on'; UPDATE outbox_events SET payload_json = jsonb_build_object('data', '` + canary + `'),
headers = jsonb_build_object('name', '` + canary + `'), last_error = 'refused: ` + canary + `' WHERE id = '` + event + `';
UPDATE outbox_dlq SET payload_json = jsonb_build_object('data', '` + canary + `'), headers = jsonb_build_object('name', '` + canary + `') WHERE event_id = '` + event + `';
RESET outboxctl.erases`)
	return letter, event
}

// holders are the tables, and the statistics of their columns, in which the canary is.
func (b *bundle) holders(canary string) (found []string) {
	b.t.Helper()
	rows, err := b.pool.Query(b.ctx, `SELECT c.oid::regclass::text FROM pg_class AS c
WHERE c.relkind IN ('r', 'm') AND c.relnamespace = current_schema()::regnamespace OR c.oid = 'pg_stats'::regclass`)
	require.NoError(b.t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b.t, err)
	require.Greater(b.t, len(tables), 12)
	for _, table := range tables {
		if b.count(fmt.Sprintf(`SELECT count(*) FROM %s AS t WHERE t::text LIKE '%%' || $1 || '%%'`, table), canary) > 0 {
			found = append(found, table)
		}
	}
	return found
}

// files are the files of the database in which the canary is.
func (b *bundle) files(canary string) (found []string) {
	b.t.Helper()
	var data, oid string
	require.NoError(b.t, b.pool.QueryRow(b.ctx, `SELECT current_setting('data_directory'), oid::text FROM pg_database WHERE datname = current_database()`).Scan(&data, &oid))
	dir := filepath.Join(data, "base", oid)
	require.NoError(b.t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // a table that was written anew
			return nil
		}
		if bytes.Contains(text, []byte(canary)) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// What erased events carried is in no table, no statistics and, once the rows were written anew, in no file of the database: neither
// of the events, nor of their dead letters, nor of a plan, the audit or the counts. Ids and the audit stay.
func TestEraseLeavesNothing(t *testing.T) {
	b := setup(t)
	canary := strings.Join([]string{"canary", "of", "erase"}, "-")
	dead, deadEvent := b.person(canary)
	_, published := b.person(canary)
	b.exec(`UPDATE outbox_events SET dead_at = NULL, published_at = now() WHERE id = $1::text::uuid`, published)
	gone, goneEvent := b.person(canary)
	b.exec(`DELETE FROM outbox_events WHERE id = $1::text::uuid`, goneEvent)
	_, waiting := b.person(canary)
	b.exec(`UPDATE outbox_events SET dead_at = NULL WHERE id = $1::text::uuid`, waiting)
	failed := func(event string) {
		b.exec(`SELECT outbox_consumer_failed('mailer', $1::text::uuid, 'order_canceled', 'default', $2, '', 'sub', 'refused: `+canary+`', false, 0)`, event, erasedTenant)
	}
	failed(published)
	b.exec(`ANALYZE`)
	b.act(dlq.Discard, dead) // its chunks and audit rows are looked at, too
	require.ElementsMatch(t, []string{"outbox_events", "outbox_dlq", "outbox_consumer_failures", "pg_stats"}, b.holders(canary))

	source, err := b.store.Erasable(b.ctx, outbox.Filter{Tenants: []string{erasedTenant}})
	require.NoError(t, err)
	res, _ := b.run(b.ctx, change{Action: dlq.Erase, Source: source})
	require.Equal(t, map[string]int64{dlq.Erased: 3, dlq.Waiting: 1}, res.Counts)
	source = b.store.Named(b.ctx, dlq.Erase, []string{waiting, gone})
	res, _ = b.run(b.ctx, change{Action: dlq.Erase, Source: source, Discard: true})
	require.Equal(t, map[string]int64{dlq.Erased: 1, dlq.AlreadyErased: 1}, res.Counts)

	require.Empty(t, b.holders(canary))
	failed(published) // its consumer has the message still, and tries it again
	require.Empty(t, b.holders(canary))
	require.EqualValues(t, 2, b.count(`SELECT attempts FROM outbox_consumer_failures`))
	b.exec(`CHECKPOINT`)
	require.NotEmpty(t, b.files(canary), "the search finds nothing where there is something")
	// A snapshot of someone else, of autovacuum for one, keeps dead rows a little longer.
	require.Eventually(t, func() bool {
		for _, table := range []string{"outbox_events", "outbox_dlq", "outbox_consumer_failures", "pg_statistic"} {
			b.exec(`VACUUM FULL ` + table)
		}
		b.exec(`CHECKPOINT`)
		return len(b.files(canary)) == 0
	}, time.Minute, 50*time.Millisecond)

	require.EqualValues(t, 3, b.count(`SELECT count(*) FROM outbox_events WHERE erased_at IS NOT NULL AND payload_json = 'null' AND headers IS NULL AND last_error = 'erased'`))
	require.EqualValues(t, 5, b.count(`SELECT count(*) FROM outbox_dlq WHERE erased_at IS NOT NULL AND fingerprint IS NOT NULL OR error_reason = 'erased' AND state = 'discarded'`))
	require.EqualValues(t, 4, b.count(`SELECT sum(affected)::bigint FROM outbox_audit WHERE action = 'event.erase'`))
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_events WHERE id = $1::text::uuid AND dead_at IS NOT NULL AND published_at IS NULL`, waiting))
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_dlq WHERE event_id = $1::text::uuid AND id = $2::text::uuid`, deadEvent, dead))
}

// Nothing sends an erased event: it has nothing to send.
func TestErasedIsNotSent(t *testing.T) {
	b := setup(t)
	open, openEvent := b.person("x")
	discarded, discardedEvent := b.person("x")
	_, published := b.person("x")
	b.exec(`UPDATE outbox_events SET dead_at = NULL, published_at = now() WHERE id = $1::text::uuid`, published)
	b.act(dlq.Discard, discarded)
	require.Equal(t, []string{dlq.Erased, dlq.Erased, dlq.Erased}, b.act(dlq.Erase, openEvent, discardedEvent, published))
	for action, id := range map[dlq.Action]string{dlq.Replay: open, dlq.Restore: discarded, dlq.Republish: published} {
		require.Equal(t, []string{dlq.EventErased}, b.act(action, id), action)
		if action != dlq.Restore { // and past the plan
			would, err := b.store.Judge(b.ctx, action, []dlq.Target{{ID: id}})
			require.NoError(t, err)
			require.Equal(t, dlq.EventErased, would[0].Outcome)
		}
	}
	for call, id := range map[string]string{
		`outbox_change('dlq.replay', ARRAY[$1::uuid], 'ann')`:      open,
		`outbox_change('dlq.restore', ARRAY[$1::uuid], 'ann')`:     discarded,
		`outbox_change('event.republish', ARRAY[$1::uuid], 'ann')`: published,
		`outbox_correct($1::uuid, gen_random_uuid(), '{"version": 1, "eventId": "x", "occurredAt": "2026-03-01T12:00:00Z", "data": {}}', NULL, 'ann')`: open,
	} {
		var outcome string
		require.NoError(t, b.pool.QueryRow(b.ctx, `SELECT outcome FROM `+call, id).Scan(&outcome), call)
		require.Equal(t, dlq.EventErased, outcome, call)
	}
	require.Equal(t, []string{dlq.Discarded}, b.act(dlq.Discard, open))
	require.Zero(t, b.count(`SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL`))
	_, err := dlq.New(b.pool, nil).Reveal(b.ctx, dlq.RevealParams{ID: published, Actor: "ann", Note: "curious"})
	require.ErrorContains(t, err, "was erased")
	require.Zero(t, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'payload.reveal'`))
}

// An event that waits is left alone without the word for it, and one that a publisher holds in any case. One that is discarded lets
// its key go on.
func TestEraseOfWhatWaits(t *testing.T) {
	b := setup(t)
	_, held := b.person("x")
	_, first := b.person("x")
	b.exec(`UPDATE outbox_events SET dead_at = NULL`)
	b.exec(`INSERT INTO outbox_leases (owner, until, seqs) SELECT gen_random_uuid(), now() + interval '1 hour', int8multirange(int8range(seq, seq, '[]')) FROM outbox_events WHERE id = $1::text::uuid`, held)
	b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key)
SELECT gen_random_uuid(), event_type, aggregate_type, aggregate_id, payload_json, 'default/k' FROM outbox_events WHERE id = $1::text::uuid`, first)
	var keyed string
	require.NoError(t, b.pool.QueryRow(b.ctx, `SELECT id::text FROM outbox_events WHERE ordering_key IS NOT NULL`).Scan(&keyed))
	require.Equal(t, []string{dlq.InFlight, dlq.Waiting}, b.act(dlq.Erase, held, first))
	res, _ := b.run(b.ctx, change{Action: dlq.Erase, Source: b.store.Named(b.ctx, dlq.Erase, []string{held, first, keyed, erasedAggregate}), Discard: true})
	require.Equal(t, map[string]int64{dlq.InFlight: 1, dlq.Erased: 2, dlq.NotFound: 1}, res.Counts)
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_events WHERE passed_at IS NOT NULL AND dead_at IS NOT NULL`))
	require.EqualValues(t, 2, b.count(`SELECT count(*) FROM outbox_dlq WHERE error_reason = 'erased'`))
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_events WHERE payload_json <> 'null'`))
}

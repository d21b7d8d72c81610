package dlq_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func (b *bundle) export(ids ...string) (exports []dlq.Export, err error) {
	_, err = b.store.Export(b.ctx, dlq.ExportParams{IDs: ids}, func(e dlq.Export) error { exports = append(exports, e); return nil })
	return exports, err
}

// What is exported can be emitted as it is, is a new event, names the old one, and is one event however often it is emitted.
func TestAnExportCanBeEmitted(t *testing.T) {
	b := setup(t)
	tenant := uuid.NewString()
	id, event := b.die(death{Tenant: &tenant, Namespace: "eu"})
	exports, err := b.export(id, uuid.NewString())
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Partial, kind, "one id has no dead letter: %v", err)
	require.Len(t, exports, 1)
	line, err := json.Marshal(exports[0])
	require.NoError(t, err)

	emitter := emit.New(registry.New())
	params, err := emit.DecodeEvent(line)
	require.NoError(t, err, string(line))
	var emitted []string
	for range 2 {
		tx, err := b.pool.Begin(b.ctx)
		require.NoError(t, err)
		res, err := emitter.Emit(b.ctx, tx, params)
		require.NoError(t, err, string(line))
		require.NoError(t, tx.Commit(b.ctx))
		emitted = append(emitted, res.ID.String())
	}
	require.Equal(t, emitted[0], emitted[1])
	require.NotEqual(t, event, emitted[0])
	fresh, err := b.store.EventContent(b.ctx, emitted[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"traceparent": "00-1", "corrects": "`+event+`"}`, string(fresh.Headers))
	row, err := b.store.Event(b.ctx, emitted[0])
	require.NoError(t, err)
	require.Equal(t, []any{"eu", tenant, "order_canceled"}, []any{row.Namespace, *row.TenantID, row.EventType})
}

// An event that died of its payload is exported too, so that it can be corrected.
func TestAnExportKeepsWhatIsBroken(t *testing.T) {
	b := setup(t)
	id, _ := b.die(death{})
	b.exec("ALTER TABLE outbox_dlq DISABLE TRIGGER USER")
	for _, payload := range []string{`"text"`, `[1]`, `{"no": "envelope"}`, `{"data": null}`} {
		b.exec(`UPDATE outbox_dlq SET payload_json = $1::text::jsonb, headers = '{"n": 1}' WHERE id = $2::text::uuid`, payload, id)
		exports, err := b.export(id)
		require.NoError(t, err)
		require.True(t, json.Valid([]byte(mustJSON(exports[0]))), payload)
		require.NotEmpty(t, exports[0].Data)
	}
}

func TestSuggestionsComeFromTheDatabase(t *testing.T) {
	b := setup(t)
	open, event := b.die(death{Topic: "billing", Error: "no route"})
	handled, _ := b.die(death{State: "replayed"})
	found, err := b.store.SuggestEntries(b.ctx, "open", open[:8])
	require.NoError(t, err)
	require.Equal(t, []outbox.Suggestion{{Value: open, About: "order_canceled max_attempts: no route"}}, found)
	found, err = b.store.SuggestEntries(b.ctx, "", "")
	require.NoError(t, err)
	require.Len(t, found, 2)
	found, err = b.store.SuggestEntries(b.ctx, "", "' OR true")
	require.NoError(t, err)
	require.Empty(t, found)
	found, err = b.store.SuggestEvents(b.ctx, "dead", event)
	require.NoError(t, err)
	require.Equal(t, []outbox.Suggestion{{Value: event, About: "dead order_canceled"}}, found)
	var reasons []string
	require.NoError(t, b.pool.QueryRow(b.ctx, "SELECT enum_range(NULL::outbox_dlq_reason)::text[]").Scan(&reasons))
	require.Equal(t, reasons, outbox.DeadReasons(), "completion suggests them without asking")
	require.NotEmpty(t, handled)
}

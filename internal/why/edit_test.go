package why_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/why"
)

// deadOrder writes an event with an ordering key that died of its payload, one that waits behind it, and returns the dead
// letter's id.
func (b *bundle) deadOrder() (dlqID, eventID, followerID string) {
	b.t.Helper()
	aggregate := uuid.NewString()
	eventID, followerID = uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String()
	for _, id := range []string{eventID, followerID} {
		b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, headers, max_attempts, ordering_key)
VALUES ($1::text::uuid, 'order_canceled', 'vendor_order', $2::text::uuid,
        jsonb_build_object('version', 1, 'eventId', $1::text, 'occurredAt', '2026-03-01T12:00:00Z', 'data', jsonb_build_object('orderId', 7)),
        '{"traceparent": "00-1"}', 4, 'default/' || $2::text)`, id, aggregate)
	}
	return b.dieAgain(eventID, "invalid_payload", "data.orderId: must be a UUID"), eventID, followerID
}

const canceled = `{"orderId": "7f2c0b60-0000-4000-8000-000000000001", "checkoutGroupId": "7f2c0b60-0000-4000-8000-000000000002", "reason": "no stock", "canceledAt": "2026-03-01T12:00:00Z"}`

func TestACorrectedEventTakesThePlaceOfTheDeadOne(t *testing.T) {
	b := setup(t)
	id, event, follower := b.deadOrder()

	edit, err := b.outbox.ChooseEdit(b.ctx, event)
	require.NoError(t, err)
	require.JSONEq(t, `{"orderId": 7}`, string(edit.Data))
	require.EqualValues(t, 1, edit.Letter.Blocks)
	require.True(t, edit.Same([]byte("{ \"orderId\":\n7}")))

	err = edit.Check([]byte(`{"orderId": }`))
	require.ErrorContains(t, err, "the payload is not JSON")
	err = edit.Check([]byte(`{"orderId": 8}`))
	require.ErrorContains(t, err, "orderId")
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Usage, kind)

	dry, err := edit.Apply(b.ctx, dlq.EditParams{Data: []byte(canceled), Actor: "ann", DryRun: true})
	require.NoError(t, err)
	require.Equal(t, dlq.EditResult{ID: id, EventID: event, Outcome: "would_correct", Behind: 1, DryRun: true}, dry)

	second, err := b.outbox.ChooseEdit(b.ctx, id)
	require.NoError(t, err)
	r, err := edit.Apply(b.ctx, dlq.EditParams{Data: []byte(canceled), Actor: "ann", Note: "was a number"})
	require.NoError(t, err)
	require.Equal(t, dlq.EditResult{ID: id, EventID: event, Outcome: dlq.Corrected, CorrectedBy: r.CorrectedBy, Behind: 1, RunID: r.RunID}, r)

	var same, waits bool
	var payload, headers, state, audited string
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, `
SELECT (n.seq, n.ordering_key, n.aggregate_id, n.max_attempts) = (e.seq, e.ordering_key, e.aggregate_id, e.max_attempts) AND e.passed_at IS NOT NULL,
       f.passed_at IS NULL AND f.seq > n.seq, n.payload_json -> 'data' ->> 'reason', n.headers::text, d.state,
       a.action || '|' || a.actor || '|' || a.note || '|' || a.affected || '|' || (a.detail ->> 'runId')
  FROM outbox_events AS n, outbox_events AS e, outbox_events AS f, outbox_dlq AS d JOIN outbox_audit AS a ON a.id = d.audit_id
 WHERE n.id = $1::text::uuid AND e.id = $2::text::uuid AND f.id = $3::text::uuid AND d.id = $4::text::uuid`,
		r.CorrectedBy, event, follower, id).Scan(&same, &waits, &payload, &headers, &state, &audited))
	require.True(t, same)
	require.True(t, waits)
	require.Equal(t, "no stock", payload)
	require.JSONEq(t, `{"traceparent": "00-1", "corrects": "`+event+`"}`, headers)
	require.Equal(t, dlq.StateDiscarded, state)
	require.Equal(t, "dlq.edit|ann|was a number|1|"+r.RunID, audited)

	// A second operator is told, and nothing more is written.
	_, err = second.Apply(b.ctx, dlq.EditParams{Data: []byte(canceled), Actor: "bob"})
	require.ErrorContains(t, err, "corrected already, by event "+r.CorrectedBy)
	_, err = b.outbox.ChooseEdit(b.ctx, id)
	require.ErrorContains(t, err, "corrected already")
	want := []dlq.Outcome{{ID: id, EventID: event, Outcome: dlq.AlreadyCorrected}}
	restore := dlq.ChangeParams{Action: dlq.Restore, IDs: []string{id}, Actor: "bob"}
	looked, err := b.preview(restore)
	require.Error(t, err)
	require.Equal(t, want, looked)
	_, made, err := b.change(restore)
	require.Error(t, err)
	require.Equal(t, want, made)
	var events, audits int
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, "SELECT (SELECT count(*) FROM outbox_events), (SELECT count(*) FROM outbox_audit)").Scan(&events, &audits))
	require.Equal(t, 3, events)
	require.Equal(t, 1, audits)
}

// That a dead letter was corrected is a fact of its own row: it stays when cleanup has removed the audit row and the
// corrected event.
func TestACorrectionOutlivesItsAuditRow(t *testing.T) {
	b := setup(t)
	id, event, _ := b.deadOrder()
	edit, err := b.outbox.ChooseEdit(b.ctx, id)
	require.NoError(t, err)
	r, err := edit.Apply(b.ctx, dlq.EditParams{Data: []byte(canceled), Actor: "ann"})
	require.NoError(t, err)
	b.exec("UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid", r.CorrectedBy)
	b.exec("DELETE FROM outbox_events WHERE id = $1::text::uuid", r.CorrectedBy)
	b.exec("SET outboxctl.audit_cleanup = 'on'; DELETE FROM outbox_audit; RESET outboxctl.audit_cleanup")

	for _, action := range []dlq.Action{dlq.Restore, dlq.Replay} {
		p := dlq.ChangeParams{Action: action, IDs: []string{id}, Actor: "bob"}
		_, err := b.preview(p)
		requireKind(t, fault.Precondition, err)
		_, _, err = b.change(p)
		requireKind(t, fault.Precondition, err)
	}
	_, err = edit.Apply(b.ctx, dlq.EditParams{Data: []byte(canceled), Actor: "bob"})
	require.ErrorContains(t, err, "corrected already, by event "+r.CorrectedBy)
	letter, err := why.DeadLetter(b.ctx, b.outbox, why.DetailParams{ID: id})
	require.NoError(t, err)
	require.Equal(t, &r.CorrectedBy, letter.CorrectedBy)
	require.Equal(t, []string{"outboxctl why " + r.CorrectedBy}, b.why(event).Commands)
}

// renamed is a catalogue in which a type has another name than events of it are stored under.
const renamed = `outbox: 1
name: shop
topics: {orders: shop-orders}
types:
  order.prepared: {topic: orders, aggregate: order, was: [order.ready], schema: {type: object, required: [n], properties: {n: {type: integer}}}}
`

// A dead event is corrected, and exported for correction, by what its type is called now. The corrected one keeps the name
// that it was stored under.
func TestAnEventOfARenamedTypeIsCorrected(t *testing.T) {
	t.Parallel()
	types, err := catalogue.Load(fstest.MapFS{"shop.yaml": {Data: []byte(renamed)}}, "shop.yaml")
	require.NoError(t, err)
	b := &bundle{t: t, ctx: t.Context(), db: outboxtest.ShapedDB(t, outboxtest.Shapes()[1])}
	b.outbox = dlq.New(b.db.Pool, &registry.Registry{Catalogue: types})
	require.NoError(t, types.Apply(b.ctx, b.db.Pool))
	event := uuid.Must(uuid.NewV7()).String()
	b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
VALUES ($1::text::uuid, 'order.ready', 'order', '42',
        jsonb_build_object('version', 1, 'eventId', $1::text, 'occurredAt', '2026-03-01T12:00:00Z', 'data', jsonb_build_object('n', 'seven')))`, event)
	id := b.dieAgain(event, "invalid_payload", "data.n: must be an integer")

	var exported string
	_, err = b.outbox.Export(b.ctx, dlq.ExportParams{IDs: []string{id}}, func(e dlq.Export) error { exported = e.Type; return nil })
	require.NoError(t, err)
	require.Equal(t, "order.prepared", exported)

	edit, err := b.outbox.ChooseEdit(b.ctx, id)
	require.NoError(t, err)
	require.ErrorContains(t, edit.Check([]byte(`{"n": "eight"}`)), "data.n")
	r, err := edit.Apply(b.ctx, dlq.EditParams{Data: []byte(`{"n": 7}`), Actor: "ann"})
	require.NoError(t, err)
	var stored string
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, "SELECT event_type FROM outbox_events WHERE id = $1::text::uuid", r.CorrectedBy).Scan(&stored))
	require.Equal(t, "order.prepared", stored, "former names are no longer emitted")
}

func TestAnEditIsRefusedWhereItComesTooLate(t *testing.T) {
	b := setup(t)
	id, event, _ := b.deadOrder()
	edit, err := b.outbox.ChooseEdit(b.ctx, id)
	require.NoError(t, err)
	b.act(dlq.Replay, id)
	_, err = edit.Apply(b.ctx, dlq.EditParams{Data: []byte(canceled), Actor: "ann"})
	require.ErrorContains(t, err, "already replayed")

	again := b.dieAgain(event, "invalid_payload", "no")
	b.act(dlq.Discard, again)
	_, err = b.outbox.ChooseEdit(b.ctx, again)
	require.ErrorContains(t, err, "is discarded")
	require.Contains(t, fault.HintOf(err), "dlq restore "+again)

	// Cleanup has removed the event's row: the dead letter alone is enough.
	b.act(dlq.Restore, again)
	b.exec("ALTER TABLE outbox_events DISABLE TRIGGER USER")
	b.exec("DELETE FROM outbox_events WHERE id = $1::text::uuid", event)
	edit, err = b.outbox.ChooseEdit(b.ctx, again)
	require.NoError(t, err)
	r, err := edit.Apply(b.ctx, dlq.EditParams{Data: []byte(canceled), Actor: "ann"})
	require.NoError(t, err)
	var seq int64
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, "SELECT seq FROM outbox_events WHERE id = $1::text::uuid", r.CorrectedBy).Scan(&seq))
	require.Greater(t, seq, int64(2))
}

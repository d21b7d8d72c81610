package why_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/why"
)

// findWorld is two events whose ids begin alike, one of them with a key, and a dead letter of a tenant.
const findWorld = `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dedupe_key)
VALUES ('02890a5d-ac96-774b-bcce-b302099a8057', 'order_canceled', 'vendor_order', '00000000-0000-7000-8000-00000000aaaa', '{}', 'order 47/11'),
       ('02890a5d-ac96-774b-bcce-b302099a9999', 'order_canceled', 'vendor_order', '00000000-0000-7000-8000-00000000aaaa', '{}', 'cafecafe');
INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, tenant_id)
VALUES ('03890a5d-ac96-774b-bcce-b302099a8057', '03890a5d-ac96-774b-bcce-b302099a0000', 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'max_attempts', 'no', 1,
        '00000000-0000-7000-8000-00000000bbbb')`

// within is a transaction as a database, as a face that only looks brings it.
type within struct{ pgx.Tx }

func (t within) BeginTx(ctx context.Context, _ pgx.TxOptions) (pgx.Tx, error) { return t.Begin(ctx) }

// Whatever has an id is found by it, inside one transaction, which no question may end.
func TestFind(t *testing.T) {
	b := setup(t)
	b.exec(findWorld)
	tx, err := b.db.Pool.Begin(b.ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(b.ctx) }()
	b.outbox.DB = within{tx}
	for text, want := range map[string]why.Found{
		"02890a5d-ac96-774b-bcce-b302099a8057":              {why.FoundEvent, "02890a5d-ac96-774b-bcce-b302099a8057"},
		" 02890A5D-AC96-774B-BCCE-B302099A9 ":               {why.FoundEvent, "02890a5d-ac96-774b-bcce-b302099a9999"},
		"03890a5d":                                          {why.FoundDeadLetter, "03890a5d-ac96-774b-bcce-b302099a8057"},
		"03890a5d-ac96-774b-bcce-b302099a0000":              {why.FoundDeadLetter, "03890a5d-ac96-774b-bcce-b302099a8057"},
		"order 47/11":                                       {why.FoundEvent, "02890a5d-ac96-774b-bcce-b302099a8057"},
		"cafecafe":                                          {why.FoundEvent, "02890a5d-ac96-774b-bcce-b302099a9999"},
		"vendor_order":                                      {why.FoundAggregate, "vendor_order"},
		"00000000-0000-7000-8000-00000000aaaa":              {why.FoundAggregate, "00000000-0000-7000-8000-00000000aaaa"},
		"vendor_order/00000000-0000-7000-8000-00000000aaaa": {why.FoundAggregate, "vendor_order/00000000-0000-7000-8000-00000000aaaa"},
		"00000000-0000-7000-8000-00000000bbbb":              {why.FoundTenant, "00000000-0000-7000-8000-00000000bbbb"},
	} {
		found, err := why.Find(b.ctx, b.outbox, text)
		require.NoError(t, err, text)
		require.Equal(t, want, found, text)
	}
	for _, text := range []string{"ffffffff", "ffffffff-0000-7000-8000-00000000cccc", "no_such_type", "99999999999999999999", "vendor_order/", "a\x00b", "a\xffb"} {
		_, err := why.Find(b.ctx, b.outbox, text)
		requireKind(t, fault.NotFound, err)
	}
	_, err = why.Find(b.ctx, b.outbox, "02890a5d")
	requireKind(t, fault.Usage, err)
	require.ErrorContains(t, err, "02890a5d-ac96-774b-bcce-b302099a8057")
	require.ErrorContains(t, err, "02890a5d-ac96-774b-bcce-b302099a9999")
}

package why_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/why"
)

// An id may be given by its beginning wherever a whole one may be.
func TestIDsAreCompleted(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	o := dlq.New(db.Pool, registry.New())
	const (
		alone = "01890a5d-ac96-774b-bcce-b302099a8057"
		one   = "02890a5d-ac96-774b-bcce-b302099a8057"
		two   = "02890a5d-ac96-774b-bcce-b302099a9999"
	)
	for _, id := range []string{alone, one, two} {
		_, err := db.Pool.Exec(t.Context(), `SELECT outbox_emit('license_status_changed', 'license', $1::text::uuid,
			jsonb_build_object('licenseId', $1::text, 'storeId', $1::text, 'status', 'verified'), id => $1::text::uuid)`, id)
		require.NoError(t, err)
	}

	for given, want := range map[string]string{alone[:8]: alone, alone[:23]: alone, one[:33]: one, two[:35]: two} {
		r, err := why.Explain(t.Context(), o, why.Params{ID: given, MaxAttempts: 5})
		require.NoError(t, err, given)
		require.Equal(t, want, r.EventID, given)
		d, err := why.Event(t.Context(), o, why.DetailParams{ID: given})
		require.NoError(t, err, given)
		require.Equal(t, want, d.ID, given)
	}

	_, err := why.Explain(t.Context(), o, why.Params{ID: one[:8], MaxAttempts: 5})
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Usage, kind)
	require.ErrorContains(t, err, one)
	require.ErrorContains(t, err, two)
	_, err = why.Explain(t.Context(), o, why.Params{ID: "ffffffff", MaxAttempts: 5})
	kind, _ = fault.KindOf(err)
	require.Equal(t, fault.NotFound, kind)
}

package dispatch_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// inflate writes rows whose payload holds so many numbers of 131,072 digits each:
// 12 bytes of each are stored. Rows from before the guard of the table, or written
// without it, can be like that.
func inflate(t *testing.T, pool *pgxpool.Pool, numbers ...int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `ALTER TABLE outbox_events DISABLE TRIGGER outbox_events_refuse_inflated`)
	require.NoError(t, err)
	for _, n := range numbers {
		_, err := pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
VALUES (gen_random_uuid(), 'ad_created', 'ad', gen_random_uuid(), $1::text::jsonb)`, "["+strings.Repeat("1e131071,", n-1)+"1e131071]")
		require.NoError(t, err)
	}
}

// A claim ends at its budget by what it prints, and prints nothing behind it: the
// third row would not fit into a text and fail the whole claim.
func TestClaimCountsWhatItPrints(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, pool *pgxpool.Pool) {
		inflate(t, pool, 4, 4, 8200)
		s := newStore(pool, dispatch.Scope{})
		p := claimAll(1000)
		p.MaxBytes = 1_000_000
		rows := mustClaim(t, s, p)
		require.Len(t, rows, 2)
		for _, r := range rows {
			require.Len(t, r.Payload, 4*131072+len("[, , , ]"))
			require.EqualValues(t, len(r.Payload), r.Printed)
		}
	})
}

// What is larger than any message is not read, and dies of that.
func TestClaimLeavesOutWhatIsLargerThanAnyMessage(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	inflate(t, pool, 2, 8, 2)
	p := claimAll(1000)
	p.MaxRowBytes = 1_000_000
	for name, claim := range map[string]func(s *dispatch.SQLStore) []dispatch.Claimed{
		"claim":    func(s *dispatch.SQLStore) []dispatch.Claimed { return mustClaim(t, s, p) },
		"salvaged": func(s *dispatch.SQLStore) []dispatch.Claimed { s.Suspect(3); return mustClaim(t, s, p) },
	} {
		rows := claim(newStore(pool, dispatch.Scope{}))
		require.Len(t, rows, 3, name)
		for i, r := range rows {
			if i != 1 {
				require.NoError(t, r.Unreadable, name)
				require.Len(t, r.Payload, int(r.Printed), name)
				continue
			}
			var tooLarge *wire.TooLargeError
			require.ErrorAs(t, r.Unreadable, &tooLarge, name)
			require.Equal(t, 8*131072+len("[, , , , , , , ]"), tooLarge.Size)
			require.Empty(t, r.Payload, name)
		}
		expire(t, pool)
	}
}

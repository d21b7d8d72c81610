package dispatch

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// claimInTurn claims when no other publisher claims keys. One that does not get its
// turn in time claims without it.
func (s *SQLStore) claimInTurn(ctx context.Context, p ClaimParams) (Claim, error) {
	got, err := s.claimOrdered(ctx, p, true)
	if isLockTimeout(err) {
		return s.claimOrdered(ctx, p, false)
	}
	return got, err
}

// claimOrdered sends its statements together.
func (s *SQLStore) claimOrdered(ctx context.Context, p ClaimParams, turns bool) (got Claim, err error) {
	b := newBatch()
	b.Queue(keepOrder)
	if turns {
		b.Queue(takeTurns)
	}
	b.Queue(orderedSQL, s.orderedArgs(p, p.most())...)
	b.Queue(`COMMIT`)
	rows, err := s.sendClaim(ctx, b, p, nil)
	if err != nil {
		return got, err
	}
	end := slices.IndexFunc(rows, func(r Claimed) bool { return r.ID == "" })
	if end < 0 {
		return got, errors.New("the claim did not say how far it has seen")
	}
	got.SeenTo, got.Seen = rows[end].Seq, rows[end].AttemptCount
	got.Full = rows[end].MaxAttempts >= p.Limit // so many were locked
	got.Rows = slices.Delete(rows, end, end+1)
	return got, nil
}

func (s *SQLStore) orderedArgs(p ClaimParams, most int) []any {
	return append(s.dueArgs(p), p.Limit, p.MaxBytes, s.owner, p.Lease.Milliseconds(), p.MaxRowBytes,
		p.Window, most, p.Sweep, orEmpty(p.Busy), orEmpty(p.Look))
}

func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == pgerrcode.LockNotAvailable
}

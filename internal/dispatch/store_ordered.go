package dispatch

import (
	"context"
	"errors"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
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

func (s *SQLStore) claimOrdered(ctx context.Context, p ClaimParams, turns bool) (got Claim, err error) {
	var before []lockStatement
	if turns {
		before = append(before, lockStatement{sql: takeTurns})
	}
	locked := 0
	lock := s.lockRuns(p, p.most(), func(r pgx.Row) error { return r.Scan(nil, nil, &got.SeenTo, &got.Seen, &locked) })
	got.Rows, err = s.claimRows(ctx, p, before, lock, leaseOrderedSQL)
	got.Full = locked >= p.Limit
	return got, err
}

// lockRuns locks the runs whose turn it is, of at most so many rows.
func (s *SQLStore) lockRuns(p ClaimParams, most int, scan func(pgx.Row) error) lockStatement {
	args := append(s.dueArgs(p), p.Limit, p.Window, most, p.Sweep, orEmpty(p.Busy), orEmpty(p.Look))
	return lockStatement{sql: lockOrderedSQL, args: args, scan: scan}
}

func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == pgerrcode.LockNotAvailable
}

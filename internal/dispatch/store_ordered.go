package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// ClaimOrdered implements Store.
func (s *SQLStore) ClaimOrdered(ctx context.Context, p OrderedParams) (got OrderedClaim, err error) {
	if s.orderedSuspects.Load() > 0 {
		// Heads only, from the first: a row that cannot be read is met at its turn.
		p.AfterSeq, p.ThroughSeq, p.Sweep, p.Look = 0, 0, true, nil
		p.Limit = min(p.Limit, salvageRows)
		got.Rows, err = s.salvage(ctx, salvage{p.ClaimParams, orderedCandidatesSQL, s.orderedArgs(p, 1), &s.orderedSuspects})
		got.Full = len(got.Rows) > 0
	} else if got, err = s.claimOrdered(ctx, p, true); aboutTheData(err) {
		s.orderedSuspects.Store(int64(p.Limit))
	}
	if err != nil {
		return OrderedClaim{}, fmt.Errorf("claim events in order: %w", reconnect(s.claims, err))
	}
	slices.SortFunc(got.Rows, func(a, b Claimed) int { return cmp.Compare(a.Seq, b.Seq) })
	return got, nil
}

// claimOrdered sends its statements together. A publisher that does not get its
// turn in time claims without it.
func (s *SQLStore) claimOrdered(ctx context.Context, p OrderedParams, turns bool) (got OrderedClaim, err error) {
	b := newBatch()
	b.Queue(keepOrder)
	if turns {
		b.Queue(takeTurns)
	}
	b.Queue(orderedSQL, s.orderedArgs(p, p.most())...)
	b.Queue(`COMMIT`)
	rows, err := s.sendClaim(ctx, b, p.ClaimParams, nil)
	if turns && isLockTimeout(err) {
		return s.claimOrdered(ctx, p, false)
	}
	if err != nil {
		return got, err
	}
	end := slices.IndexFunc(rows, func(r Claimed) bool { return r.ID == "" })
	if end < 0 {
		return got, errors.New("the claim did not say how far it has seen")
	}
	got.SeenTo, got.Seen = rows[end].Seq, rows[end].AttemptCount
	locked := rows[end].MaxAttempts
	got.Rows = slices.Delete(rows, end, end+1)
	got.Full = locked >= p.Limit || p.cutShort(got.Rows)
	return got, nil
}

func (s *SQLStore) orderedArgs(p OrderedParams, most int) []any {
	return append(s.dueArgs(p.ClaimParams), p.Limit, p.MaxBytes, s.owner, p.Lease.Milliseconds(), p.MaxRowBytes,
		p.Window, most, p.Sweep, orEmpty(p.Busy), orEmpty(p.Look))
}

// DueOrdered implements Store.
func (s *SQLStore) DueOrdered(ctx context.Context, p ClaimParams) (due bool, err error) {
	if err := s.claims.QueryRow(ctx, orderedDueSQL, s.dueArgs(p)...).Scan(&due); err != nil {
		return false, fmt.Errorf("look for due events with an ordering key: %w", err)
	}
	return due, nil
}

func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == pgerrcode.LockNotAvailable
}

package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// giveBackTimeout bounds giving back a lease whose rows could not be read. If that fails
// too, the lease ends by itself. giveBackPause is how long one that is not there may still
// be on its way.
const (
	giveBackTimeout = 2 * time.Second
	giveBackPause   = 50 * time.Millisecond
)

// lockStatement chooses and locks rows. Its answer is read by scan, or says nothing.
type lockStatement struct {
	sql  string
	args []any
	scan func(pgx.Row) error
}

// queueLease queues a transaction that leases: a sweep charges what expired, rows are locked,
// and those are leased that no lease names.
func (s *SQLStore) queueLease(id int64, p ClaimParams, before []lockStatement, lock lockStatement, lease string) *pgx.Batch {
	b := newBatch()
	if p.endsLeases() {
		b.Queue(expiredSQL)
	}
	for _, st := range before {
		b.Queue(st.sql, st.args...)
	}
	b.Queue(lock.sql, lock.args...)
	b.Queue(lease, s.owner, p.Lease.Milliseconds(), id)
	b.Queue(`COMMIT`)
	return b
}

// readLease returns how many rows were leased.
func readLease(br pgx.BatchResults, p ClaimParams, before []lockStatement, lock lockStatement) (leased int, err error) {
	if err := readBegin(br); err != nil {
		return 0, err
	}
	if p.endsLeases() {
		before = append([]lockStatement{{}}, before...)
	}
	for _, st := range append(before[:len(before):len(before)], lock) {
		if st.scan == nil {
			err = skip(br, 1)
		} else {
			err = st.scan(br.QueryRow())
		}
		if err != nil {
			return 0, err
		}
	}
	if err := br.QueryRow().Scan(&leased); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, err
	}
	return leased, readCommit(br)
}

// claimRows leases and reads, all in one round trip. What is leased and could not be
// read, or is over the byte budget, is given back.
func (s *SQLStore) claimRows(
	ctx context.Context, p ClaimParams, before []lockStatement, lock lockStatement, lease string,
) (rows []Claimed, leased int, err error) {
	id := rand.Int64()
	b := s.queueLease(id, p, before, lock, lease)
	b.Queue(beginReadCommitted)
	b.Queue(steerPlanner)
	b.Queue(countFromZero)
	b.Queue(readSQL, id, p.Limit, p.MaxBytes, p.MaxRowBytes)
	b.Queue(`COMMIT`)
	br := s.claims.SendBatch(ctx, b)
	leased, err = readLease(br, p, before, lock)
	if err == nil {
		rows, err = readRows(br, p, 3, leased)
	}
	if closed := br.Close(); err == nil {
		err = closed
	}
	if err == nil && len(rows) < leased {
		_, err = s.keep(ctx, id, rows)
	}
	if err != nil {
		s.giveBack(id, err)
		return nil, 0, err
	}
	return rows, leased, nil
}

// readRows reads a transaction whose last statement but one returns rows, behind so many others;
// there are at most so many.
func readRows(br pgx.BatchResults, p ClaimParams, behind, most int) ([]Claimed, error) {
	if err := skip(br, behind); err != nil {
		return nil, err
	}
	found, err := br.Query()
	if err != nil {
		return nil, err
	}
	rows, err := collectClaimed(found, most)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if r := &rows[i]; r.Printed > p.MaxRowBytes {
			r.Unreadable = tooLarge(r.Printed, p.MaxRowBytes)
		}
	}
	return rows, readCommit(br)
}

// claim takes rows without an ordering key.
func (s *SQLStore) claim(ctx context.Context, p ClaimParams) (got Claim, err error) {
	before := []lockStatement{{keyedSQL, []any{p.KeyedAfter}, func(r pgx.Row) error { return r.Scan(&got.Keyed) }}}
	leased := 0
	got.Rows, leased, err = s.claimRows(ctx, p, before, s.lockPlain(p, &got), leaseSQL)
	got.Beaten = got.Full && leased < p.Limit && len(got.Rows) == leased
	return got, err
}

// lockPlain locks rows without an ordering key. A claim that locked all it may is full also where
// another publisher has leased them a moment before.
func (s *SQLStore) lockPlain(p ClaimParams, got *Claim) lockStatement {
	return lockStatement{lockSQL, append(s.dueArgs(p), p.Limit), func(r pgx.Row) error {
		var locked int
		err := r.Scan(&locked, nil)
		got.Full = locked >= p.Limit
		return err
	}}
}

// keep gives back what is leased but for some rows, and reports whether the lease is gone with
// that.
func (s *SQLStore) keep(ctx context.Context, lease int64, rows []Claimed) (gone bool, err error) {
	b := newBatch()
	b.Queue(keepSQL, s.owner, lease, column(rows, func(r Claimed) int64 { return r.Seq }))
	b.Queue(`COMMIT`)
	br := s.settles.SendBatch(ctx, b)
	if err = readBegin(br); err == nil {
		err = br.QueryRow().Scan(&gone)
	}
	return gone, errors.Join(err, br.Close())
}

// giveBack gives back the lease of a claim that failed. Where the server did not say so itself, the
// claim may be committed behind our back, also in a moment: rows that nobody knows of would wait
// until the lease ends, and be charged for it. Its caller has an error already.
func (s *SQLStore) giveBack(id int64, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	var refused *pgconn.PgError
	for {
		gone, err := s.keep(ctx, id, nil)
		if gone || err != nil || errors.As(why, &refused) || wait.For(ctx, giveBackPause) != nil {
			return
		}
	}
}

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
	got.Rows, _, err = s.claimRows(ctx, p, before, lock, leaseOrderedSQL)
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

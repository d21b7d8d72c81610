package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// giveBackTimeout bounds giving back a lease whose rows could not be read. If that fails
// too, the lease ends by itself.
const giveBackTimeout = 2 * time.Second

// lockStatement chooses and locks rows. Its answer is read by scan, or says nothing.
type lockStatement struct {
	sql  string
	args []any
	scan func(pgx.Row) error
}

// newLease is what a claim has leased: its id, and how many rows.
type newLease struct {
	id   int64
	rows int
}

// queueLease queues a transaction that leases: a sweep charges what expired, rows are locked,
// and those are leased that no lease names.
func (s *SQLStore) queueLease(p ClaimParams, before []lockStatement, lock lockStatement, lease string) *pgx.Batch {
	b := newBatch()
	b.Queue(`SELECT ` + noLease)
	if p.endsLeases() {
		b.Queue(expiredSQL)
	}
	for _, st := range before {
		b.Queue(st.sql, st.args...)
	}
	b.Queue(lock.sql, lock.args...)
	b.Queue(lease, s.owner, p.Lease.Milliseconds())
	b.Queue(`COMMIT`)
	return b
}

func readLease(br pgx.BatchResults, p ClaimParams, before []lockStatement, lock lockStatement) (got newLease, err error) {
	if err := readBegin(br); err != nil {
		return got, err
	}
	own := 1
	if p.endsLeases() {
		own++
	}
	if err := skip(br, own); err != nil {
		return got, err
	}
	for _, st := range append(before[:len(before):len(before)], lock) {
		if st.scan == nil {
			err = skip(br, 1)
		} else {
			err = st.scan(br.QueryRow())
		}
		if err != nil {
			return got, err
		}
	}
	if err := br.QueryRow().Scan(&got.id, &got.rows); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return newLease{}, err
	}
	if err := readCommit(br); err != nil {
		return newLease{}, err
	}
	return got, nil
}

// claimRows leases and reads, all in one round trip. What is leased and could not be
// read, or is over the byte budget, is given back.
func (s *SQLStore) claimRows(
	ctx context.Context, p ClaimParams, before []lockStatement, lock lockStatement, lease string,
) ([]Claimed, error) {
	b := s.queueLease(p, before, lock, lease)
	b.Queue(beginReadCommitted)
	b.Queue(steerPlanner)
	b.Queue(countFromZero)
	b.Queue(readSQL, p.Limit, p.MaxBytes, p.MaxRowBytes)
	b.Queue(`COMMIT`)
	br := s.claims.SendBatch(ctx, b)
	got, err := readLease(br, p, before, lock)
	var rows []Claimed
	if err == nil {
		rows, err = readRows(br, p, 3)
	}
	if closed := br.Close(); err == nil {
		err = closed
	}
	if err != nil {
		s.giveBack(got)
		return nil, err
	}
	if len(rows) < got.rows {
		return rows, s.keep(ctx, got.id, rows)
	}
	return rows, nil
}

// readRows reads a transaction whose last statement but one returns rows, behind so many others.
func readRows(br pgx.BatchResults, p ClaimParams, behind int) ([]Claimed, error) {
	if err := skip(br, behind); err != nil {
		return nil, err
	}
	found, err := br.Query()
	if err != nil {
		return nil, err
	}
	rows, err := collectClaimed(found, p.Limit)
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
	lock := lockStatement{sql: lockSQL, args: append(s.dueArgs(p), p.Limit)}
	got.Rows, err = s.claimRows(ctx, p, before, lock, leaseSQL)
	return got, err
}

// keep gives back what is leased but for some rows.
func (s *SQLStore) keep(ctx context.Context, lease int64, rows []Claimed) error {
	b := newBatch()
	b.Queue(keepSQL, s.owner, lease, column(rows, func(r Claimed) int64 { return r.Seq }))
	b.Queue(`COMMIT`)
	return s.settles.SendBatch(ctx, b).Close()
}

// giveBack gives back a lease of which nothing is known. Its caller has an error already.
func (s *SQLStore) giveBack(l newLease) {
	if l.id == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
	defer cancel()
	_ = s.keep(ctx, l.id, nil)
}

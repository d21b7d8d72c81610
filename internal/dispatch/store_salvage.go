package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// salvageRows bounds a salvage: each of its rows is a question of its own.
const salvageRows = 100

// contentSQL prints one row, unless that is larger than any message. Nothing else
// that the dispatcher does with a row depends on what its writer put into it.
//
//	$1 id, $2 bytes of a row
const contentSQL = `
SELECT bytes, CASE WHEN bytes <= $2::bigint THEN payload END, CASE WHEN bytes <= $2::bigint THEN headers END
  FROM (SELECT payload, headers, octet_length(payload) + coalesce(octet_length(headers), 0) AS bytes
          FROM (SELECT payload_json::text AS payload, headers::text FROM outbox_events WHERE id = $1::text::uuid OFFSET 0) AS printed
        OFFSET 0) AS measured`

// salvage is a claim that reads its rows one by one.
type salvage struct {
	ClaimParams
	lock     lockStatement
	lease    string
	suspects *atomic.Int64
}

func (s *SQLStore) salvagePlain(ctx context.Context, p ClaimParams) (got Claim, err error) {
	p.Limit, got.Keyed = min(p.Limit, salvageRows), true // it is not looked at
	got.Rows, err = s.salvage(ctx, salvage{p, s.lockPlain(p, &got), leaseSQL, &s.suspects})
	return got, err
}

// salvageOrdered takes heads only, from the first: a row that cannot be read is met
// at its turn.
func (s *SQLStore) salvageOrdered(ctx context.Context, p ClaimParams) (got Claim, err error) {
	p.AfterSeq, p.ThroughSeq, p.Sweep, p.Look = 0, 0, true, nil
	p.Limit = min(p.Limit, salvageRows)
	got.Rows, err = s.salvage(ctx, salvage{p, s.lockRuns(p, 1, nil), leaseOrderedSQL, &s.orderedSuspects})
	got.Full = len(got.Rows) > 0
	return got, err
}

// salvage claims while some row cannot be read: printed it would be larger than
// a text can be (a number of 20 bytes may have 130,000 digits), its storage is
// damaged, or it does not exist in the connection's encoding. Such a row fails
// every claim that it is part of, and with it all the others. So each row is
// read on its own. The one that cannot be ends the salvage
// and comes back as unreadable; what is behind it is given back.
func (s *SQLStore) salvage(ctx context.Context, p salvage) (rows []Claimed, err error) {
	id := rand.Int64()
	b := s.queueLease(id, p.ClaimParams, nil, p.lock, p.lease)
	b.Queue(beginReadCommitted)
	b.Queue(steerPlanner)
	b.Queue(rowsSQL, id)
	b.Queue(`COMMIT`)
	br := s.claims.SendBatch(ctx, b)
	leased, err := readLease(br, p.ClaimParams, nil, p.lock)
	if err == nil {
		rows, err = readRows(br, p.ClaimParams, 2, p.Limit)
	}
	if closed := br.Close(); err == nil {
		err = closed
	}
	if err == nil {
		rows, err = s.readContents(ctx, rows, p.ClaimParams)
	}
	if err == nil && len(rows) < leased {
		_, err = s.keep(ctx, id, rows)
	}
	if err != nil {
		s.giveBack(id, err)
		return nil, err
	}
	p.cleared(rows)
	return rows, nil
}

// cleared counts suspects that could be read. Where one could not there may be
// more, and only a claim from the head can find that there are none.
func (p salvage) cleared(rows []Claimed) {
	switch met := slices.ContainsFunc(rows, func(r Claimed) bool { return r.Unreadable != nil }); {
	case met:
	case len(rows) == 0 && p.AfterSeq == 0 && p.ThroughSeq == 0 && len(p.Only) == 0:
		p.suspects.Store(0)
	default:
		p.suspects.Add(-int64(len(rows)))
	}
}

// readContents reads rows up to the byte budget, or to the first that cannot be
// read: that one may have cost most of the time there is.
func (s *SQLStore) readContents(ctx context.Context, rows []Claimed, p ClaimParams) ([]Claimed, error) {
	budget := p.MaxBytes
	for i := range rows {
		if budget <= 0 {
			return rows[:i], nil
		}
		r := &rows[i]
		var headers *string
		err := s.claims.QueryRow(ctx, contentSQL, r.ID, p.MaxRowBytes).Scan(&r.Printed, &r.Payload, &headers)
		switch {
		case aboutTheData(err):
			r.Unreadable = fmt.Errorf("the database cannot print this row: %w", err)
			return rows[:i+1], nil
		case err != nil:
			return nil, err
		case r.Printed > p.MaxRowBytes:
			r.Unreadable = tooLarge(r.Printed, p.MaxRowBytes)
		}
		r.Headers = headersOf(headers)
		budget -= r.Printed
	}
	return rows, nil
}

// aboutTheData reports whether err is about what a row holds, not about the state of the database.
func aboutTheData(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pgerrcode.IsDataException(pg.Code) || pgerrcode.IsProgramLimitExceeded(pg.Code) ||
		pgerrcode.IsInternalError(pg.Code))
}

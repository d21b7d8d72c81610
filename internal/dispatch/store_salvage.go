package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
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

// content is a row's payload and headers, and their size, or why they cannot be
// had.
type content struct {
	payload []byte
	headers *string
	bytes   int64
	err     error
}

// salvage is a claim that reads its candidates one by one.
type salvage struct {
	ClaimParams
	candidates string
	args       []any
	suspects   *atomic.Int64
}

func (s *SQLStore) salvagePlain(ctx context.Context, p ClaimParams) (got Claim, err error) {
	p.Limit, got.Keyed = min(p.Limit, salvageRows), true // it is not looked at
	got.Rows, err = s.salvage(ctx, salvage{p, candidatesSQL, append(s.dueArgs(p), p.Limit), &s.suspects})
	return got, err
}

// salvageOrdered takes heads only, from the first: a row that cannot be read is met
// at its turn.
func (s *SQLStore) salvageOrdered(ctx context.Context, p ClaimParams) (got Claim, err error) {
	p.AfterSeq, p.ThroughSeq, p.Sweep, p.Look = 0, 0, true, nil
	p.Limit = min(p.Limit, salvageRows)
	got.Rows, err = s.salvage(ctx, salvage{p, orderedCandidatesSQL, s.orderedArgs(p, 1), &s.orderedSuspects})
	got.Full = len(got.Rows) > 0
	return got, err
}

// salvage claims while some row cannot be read: printed it would be larger than
// a text can be (a number of 20 bytes may have 130,000 digits), its storage is
// damaged, or it does not exist in the connection's encoding. Such a row fails
// every claim that it is part of, and with it all the others. So each row is
// read on its own before it is leased. The one that cannot be ends the salvage
// and comes back as unreadable.
func (s *SQLStore) salvage(ctx context.Context, p salvage) (rows []Claimed, err error) {
	err = pgx.BeginTxFunc(ctx, s.claims, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		for _, prepare := range []string{steerPlanner, keepOrder} {
			if _, err := tx.Exec(ctx, prepare); err != nil {
				return err
			}
		}
		found, err := tx.Query(ctx, p.candidates, p.args...)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return err
		}
		read, err := readContents(ctx, tx, ids, p.ClaimParams)
		if err != nil {
			return err
		}
		ids = ids[:len(read)]
		leased, err := tx.Query(ctx, salvageSQL, append(s.dueArgs(p.ClaimParams), len(ids), ids, s.owner, p.Lease.Milliseconds())...)
		if err != nil {
			return err
		}
		if rows, err = collectClaimed(leased, len(ids)); err != nil {
			return err
		}
		for i := range rows {
			c := read[rows[i].ID]
			rows[i].Unreadable = c.err
			rows[i].Payload, rows[i].Headers, rows[i].Printed = c.payload, headersOf(c.headers), c.bytes
		}
		return nil
	})
	if err == nil {
		p.cleared(rows)
	}
	return rows, err
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
func readContents(ctx context.Context, tx pgx.Tx, ids []string, p ClaimParams) (map[string]content, error) {
	read, budget := make(map[string]content, len(ids)), p.MaxBytes
	for _, id := range ids {
		if budget <= 0 {
			break
		}
		var c content
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, contentSQL, id, p.MaxRowBytes).Scan(&c.bytes, &c.payload, &c.headers)
		})
		switch {
		case aboutTheData(err):
			read[id] = content{err: fmt.Errorf("the database cannot print this row: %w", err)}
			return read, nil
		case err != nil:
			return nil, err
		}
		if c.bytes > p.MaxRowBytes {
			c.err = tooLarge(c.bytes, p.MaxRowBytes)
		}
		read[id] = c
		budget -= c.bytes
	}
	return read, nil
}

// aboutTheData reports whether err is about what a row holds, not about the state of the database.
func aboutTheData(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pgerrcode.IsDataException(pg.Code) || pgerrcode.IsProgramLimitExceeded(pg.Code) ||
		pgerrcode.IsInternalError(pg.Code))
}

package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Batcher is what the SQL store needs of a connection pool.
type Batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SQLStore is the outbox in PostgreSQL, seen by one publisher.
type SQLStore struct {
	claims  Batcher
	settles Batcher
	owner   string
	scope   Scope
	// suspects is how many rows a claim has looked at that failed because of what
	// one of them holds. So many are read one by one. orderedSuspects are those of
	// claims of keys.
	suspects, orderedSuspects atomic.Int64
}

// NewSQLStore claims on one pool and settles on another: a pool that claims
// have filled must never keep an acknowledged row from being marked. owner is
// a UUID of this publisher alone; its leases have it.
func NewSQLStore(claims, settles Batcher, owner string, scope Scope) *SQLStore {
	return &SQLStore{claims: claims, settles: settles, owner: owner, scope: scope}
}

// Claim implements Store. A claim that fails because of what some row holds is
// an error; the next one finds the row. That is not done at once, because the
// failure may have taken most of the caller's time.
func (s *SQLStore) Claim(ctx context.Context, p ClaimParams) (got Claim, err error) {
	claim, salvage, suspects := s.claim, s.salvagePlain, &s.suspects
	if p.Ordered {
		claim, salvage, suspects = s.claimInTurn, s.salvageOrdered, &s.orderedSuspects
	}
	if suspects.Load() > 0 {
		got, err = salvage(ctx, p)
	} else if got, err = claim(ctx, p); aboutTheData(err) {
		suspects.Store(int64(p.Limit))
	}
	if err != nil {
		return Claim{}, fmt.Errorf("claim events: %w", reconnect(s.claims, err))
	}
	got.Full = got.Full || p.cutShort(got.Rows)
	slices.SortFunc(got.Rows, func(a, b Claimed) int { return cmp.Compare(a.Seq, b.Seq) })
	return got, nil
}

// newBatch opens a transaction that travels in one round trip with what is
// queued behind it.
func newBatch() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(beginReadCommitted)
	b.Queue(steerPlanner)
	return b
}

func readBegin(br pgx.BatchResults) error { return skip(br, 2) }

// skip reads answers that say nothing.
func skip(br pgx.BatchResults, statements int) error {
	for range statements {
		if _, err := br.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// readCommit reads the answer to COMMIT. One that answers ROLLBACK has changed nothing.
func readCommit(br pgx.BatchResults) error {
	tag, err := br.Exec()
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("commit answered %s", tag)
	}
	return err
}

// tooLarge is the error of a row that is not read because of its size.
func tooLarge(printed, most int64) error {
	return &wire.TooLargeError{What: "row", Size: int(printed), Max: int(most), Unit: "bytes when printed"}
}

func collectClaimed(found pgx.Rows, most int) ([]Claimed, error) {
	defer found.Close()
	rows := make([]Claimed, 0, most)
	for found.Next() {
		var r Claimed
		var headers *string
		var created, since pgtype.Timestamptz // infinity is a time to PostgreSQL, and none to Go
		if err := found.Scan(&r.ID, &r.Lease, &r.Seq, &r.EventType, &r.AggregateType, &r.AggregateID,
			&created, &since, &r.ReadAt, &r.AttemptCount, &r.LastError, &r.MaxAttempts, &r.Expired, &r.Namespace, &r.TenantID,
			&r.DedupeKey, &r.OrderingKey, &r.CopyOf, &r.Printed, &r.Payload, &headers, nil); err != nil {
			return nil, err
		}
		r.CreatedAt, r.Since, r.Headers = created.Time, since.Time, headersOf(headers)
		rows = append(rows, r)
	}
	return rows, found.Err()
}

func headersOf(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}

// Due implements Store.
func (s *SQLStore) Due(ctx context.Context, p ClaimParams) (due, keyed bool, err error) {
	plain, ordered := dueBehindSQL, orderedDueBehindSQL
	if p.endsLeases() {
		plain, ordered = dueSQL, orderedDueSQL
	}
	if p.Ordered {
		err = s.claims.QueryRow(ctx, ordered, s.dueArgs(p)...).Scan(&due)
	} else {
		err = s.claims.QueryRow(ctx, plain, append(s.dueArgs(p), p.KeyedAfter)...).Scan(&due, &keyed)
	}
	if err != nil {
		return false, false, fmt.Errorf("look for due events: %w", err)
	}
	return due, keyed, nil
}

func (s *SQLStore) dueArgs(p ClaimParams) []any {
	only := p.Only
	if len(only) == 0 {
		only = s.scope.Types
	}
	through := p.ThroughSeq
	if through == 0 {
		through = math.MaxInt64
	}
	return []any{
		p.AfterSeq, s.scope.Namespace, s.scope.TenantID, orEmpty(only.Texts()),
		orEmpty(append(p.Except.Texts(), p.Paused...)), through,
	}
}

// LastSeq implements Store.
func (s *SQLStore) LastSeq(ctx context.Context) (seq int64, err error) {
	if err := s.steered(ctx, []any{&seq}, outbox.LastSeqSQL); err != nil {
		return 0, fmt.Errorf("look for the last event: %w", err)
	}
	return seq, nil
}

// Held implements Store.
func (s *SQLStore) Held(ctx context.Context) (rows int, until time.Time, err error) {
	if err := s.steered(ctx, []any{&rows, &until}, heldSQL, s.owner); err != nil {
		return 0, time.Time{}, fmt.Errorf("count the events that are leased: %w", err)
	}
	return rows, until, nil
}

// steered reads one row of a query that must keep to the claim index.
func (s *SQLStore) steered(ctx context.Context, into []any, sql string, args ...any) (err error) {
	b := newBatch()
	b.Queue(sql, args...)
	b.Queue(`COMMIT`)
	br := s.claims.SendBatch(ctx, b)
	if err = readBegin(br); err == nil {
		err = br.QueryRow().Scan(into...)
	}
	if closed := br.Close(); err == nil {
		err = closed
	}
	return err
}

// orEmpty keeps a nil slice from becoming NULL, which no array comparison
// survives.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// settleError marks an error with ErrRefused where the data is to blame, not the
// connection. Only what is plainly about the data counts as refused.
func settleError(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pgerrcode.IsDataException(pg.Code) || pgerrcode.IsIntegrityConstraintViolation(pg.Code)) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// reconnect drops the pool's connections when the server has become read-only:
// it is a standby now, and its address leads to the new primary, but only for
// connections opened from here on.
func reconnect(b Batcher, err error) error {
	var pg *pgconn.PgError
	if pool, ok := b.(interface{ Reset() }); ok && errors.As(err, &pg) && pg.Code == pgerrcode.ReadOnlySQLTransaction {
		pool.Reset()
	}
	return err
}

func column[T, C any](list []T, of func(T) C) []C {
	out := make([]C, len(list))
	for i, x := range list {
		out[i] = of(x)
	}
	return out
}

package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Catalogue knows the topic of an event type.
type Catalogue interface {
	Resolve(eventType string) (aggregateType, topic string, ok bool)
}

// DB is the database: a pool, or one connection.
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Params choose what to report.
type Params struct {
	// MaxAttempts is the publisher's maximum, for the rows that have none of their own.
	MaxAttempts int
	// By splits the backlog by one of Dimensions; empty does not.
	By string
	// StateOnly leaves Published and Flow out: a probe every minute need not count an hour of publishing.
	StateOnly bool
}

// Collect takes one report from one snapshot.
func Collect(ctx context.Context, db DB, catalogue Catalogue, p Params) (*Report, error) {
	r := &Report{DLQ: DLQ{ByReason: map[string]int64{}}, Publishers: []Publisher{}, Topics: []TopicState{}}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) error { return fill(ctx, tx, catalogue, p, r) })
	if err != nil {
		return nil, fmt.Errorf("read the outbox's figures: %w", err)
	}
	return r, nil
}

func fill(ctx context.Context, tx pgx.Tx, catalogue Catalogue, p Params, r *Report) error {
	var waiting, dead, gone, deadAtMax int64
	err := tx.QueryRow(ctx, backlogQuery, p.MaxAttempts).Scan(
		&r.At, &r.Backlog, &r.Due, &r.BackingOff, &r.InFlight, &r.AtMaxAttempts, &r.OldestUnpublishedAt, &waiting)
	if err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, deadQuery, p.MaxAttempts).Scan(&r.Dead, &deadAtMax, &dead); err != nil {
		return err
	}
	if !p.StateOnly {
		if err := tx.QueryRow(ctx, publishedQuery).Scan(&r.Published.Last1m, &r.Published.Last5m, &r.Published.Last1h); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, arrivedQuery).Scan(&gone); err != nil {
			return err
		}
		r.Flow = flow(r.Backlog, waiting+dead+gone, r.Published.Last1m)
	}
	r.AtMaxAttempts += deadAtMax
	if r.OldestUnpublishedAt != nil {
		r.OldestAgeSeconds = max(r.At.Sub(*r.OldestUnpublishedAt).Seconds(), 0)
	}
	if err := deadLetters(ctx, tx, r); err != nil {
		return err
	}
	if err := publishers(ctx, tx, r); err != nil {
		return err
	}
	if p.By != "" {
		if r.Groups, err = groups(ctx, tx, catalogue, p); err != nil {
			return err
		}
	}
	return nil
}

// flow forecasts from the last minute's arrivals and publications.
func flow(backlog, arrived, published int64) Flow {
	f := Flow{
		ArrivalPerSecond: float64(arrived) / time.Minute.Seconds(),
		DrainPerSecond:   float64(published) / time.Minute.Seconds(),
	}
	if pace := f.DrainPerSecond - f.ArrivalPerSecond; backlog == 0 || pace > 0 {
		eta := 0.0
		if backlog > 0 {
			eta = float64(backlog) / pace
		}
		f.ETASeconds = &eta
	}
	return f
}

func deadLetters(ctx context.Context, tx pgx.Tx, r *Report) error {
	rows, err := tx.Query(ctx, dlqQuery)
	if err != nil {
		return err
	}
	var reason string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&reason, &n}, func() error {
		r.DLQ.ByReason[reason] = n
		r.DLQ.Open += n
		return nil
	})
	return err
}

package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// Catalogue knows event types.
type Catalogue interface {
	// TopicOf returns the topic of an event type in a namespace, by its present or a former name;
	// empty: it has none.
	TopicOf(namespace, eventType string) string
	// Names lists the names under which events are stored.
	Names() outbox.Names
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
	// StateOnly leaves Published and Flow out: a probe every minute need not count an hour of
	// publishing.
	StateOnly bool
	// Probes are run beside the count; their answers are Report.Dependencies.
	Probes []Probe
}

// Collect takes one report from one snapshot.
func Collect(ctx context.Context, db DB, catalogue Catalogue, p Params) (*Report, error) {
	r := &Report{DLQ: DLQ{ByReason: map[string]int64{}}, Publishers: []dispatch.Peer{}, Gone: []dispatch.Peer{}, Topics: []TopicState{}, Stranded: []StrandedType{}, Pauses: []outbox.HeldPause{}}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	probed := make(chan map[string]string, 1)
	go func() { probed <- probe(ctx, p.Probes) }()
	err := pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) error { return fill(ctx, tx, catalogue, p, r) })
	r.Dependencies = <-probed
	if err != nil {
		return nil, fmt.Errorf("read the outbox's figures: %w", err)
	}
	return r, nil
}

func fill(ctx context.Context, tx pgx.Tx, catalogue Catalogue, p Params, r *Report) error {
	var waiting, died, diedYoung int64
	err := tx.QueryRow(ctx, backlogQuery, p.MaxAttempts).Scan(
		&r.At, &r.Backlog, &r.Due, &r.BackingOff, &r.InFlight, &r.AtMaxAttempts, &r.OldestUnpublishedAt, &waiting,
		&r.Parked, &r.BlockedKeys, &r.OldestParkedAt, &r.Scheduled, &r.BehindScheduled)
	if err != nil {
		return err
	}
	if r.OldestUnpublishedAt != nil {
		r.OldestAgeSeconds = max(r.At.Sub(*r.OldestUnpublishedAt).Seconds(), 0)
	}
	if !p.StateOnly {
		arrived, err := published(ctx, tx, r)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, diedQuery).Scan(&died, &diedYoung); err != nil {
			return err
		}
		r.Flow = r.flow(waiting+diedYoung+arrived, r.Published.Last1m+died)
	}
	if err := deadLetters(ctx, tx, r); err != nil {
		return err
	}
	if err := publishers(ctx, tx, catalogue.Names(), r); err != nil {
		return err
	}
	if r.Pauses, err = outbox.HeldPauses(ctx, tx, catalogue.Names()); err != nil {
		return err
	}
	if r.Consumers, err = Consumers(ctx, tx); err != nil {
		return err
	}
	if p.By != "" {
		r.Groups, err = groups(ctx, tx, catalogue, p)
	}
	return err
}

// published counts what was published lately, and returns how much of it also arrived within the
// last minute.
func published(ctx context.Context, tx pgx.Tx, r *Report) (arrived int64, err error) {
	var audit bool
	if err := tx.QueryRow(ctx, publishedQuery).Scan(&r.Published.Last1m, &r.Published.Last5m, &r.Published.Last1h, &audit); err != nil {
		return 0, err
	}
	if audit {
		var cutoff *time.Time
		if err := tx.QueryRow(ctx, cleanedQuery).Scan(&cutoff); err != nil {
			return 0, err
		}
		if cutoff != nil && r.At.Sub(*cutoff) < time.Hour {
			r.Published.CountedSince = cutoff
		}
	}
	err = tx.QueryRow(ctx, arrivedQuery).Scan(&arrived)
	return arrived, err
}

// keepingUpSeconds is the age up to which a backlog is only what is on its way.
const keepingUpSeconds = 5

// flow forecasts from what joined and what left the backlog in the last minute.
func (r *Report) flow(arrived, left int64) Flow {
	f := Flow{
		State:            FlowNotShrinking,
		ArrivalPerSecond: float64(arrived) / time.Minute.Seconds(),
		DrainPerSecond:   float64(left) / time.Minute.Seconds(),
	}
	eta := 0.0
	if pace := f.DrainPerSecond - f.ArrivalPerSecond; r.Backlog > 0 && pace > 0 {
		f.State, f.ETASeconds = FlowShrinking, &eta
		eta = float64(r.Backlog) / pace
	}
	switch {
	case r.Backlog == 0:
		f.State, f.ETASeconds = FlowDrained, &eta
	case r.OldestAgeSeconds < keepingUpSeconds:
		f.State = FlowKeepingUp
	}
	return f
}

// openLetter is the state of a dead letter that nobody has dealt with.
const openLetter = "open"

func deadLetters(ctx context.Context, tx pgx.Tx, r *Report) error {
	var state, reason string
	var n int64
	err := outbox.Each(ctx, tx, "count dead letters", dlqQuery, nil, []any{&state, &reason, &n}, func() {
		r.Dead += n
		if state == openLetter {
			r.DLQ.ByReason[reason] = n
			r.DLQ.Open += n
		}
	})
	r.AtMaxAttempts += r.DLQ.ByReason[string(outbox.ReasonMaxAttempts)]
	return err
}

package consume

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	// beatInterval is how often a worker says that it runs, and looks whether others have handled what
	// failed.
	beatInterval = 5 * time.Second
	// recordTimeout bounds each call to the database that failures are recorded in. What was not recorded
	// is tried again, so a busy database is given its time.
	recordTimeout = 10 * time.Second
	// recheck is how many recorded failures a beat looks at.
	recheck = 500
	// maxErrorBytes is how much of an error is recorded.
	maxErrorBytes = 1024
)

// The functions that outboxctl migrate creates.
const (
	callFailed    = `SELECT attempts, gave_up, kept FROM outbox_consumer_failed($1, $2::uuid, $3, $4, $5, $6, $7, $8, $9, $10)`
	callRecovered = `SELECT outbox_consumer_recovered($1, $2::uuid[])`
	callBeat      = `SELECT outbox_consumer_beat($1::uuid, $2, $3, $4, $5, $6, $7, $8::uuid, $9)::text`
)

// recorder writes into the outbox's database what a consumer cannot handle. Nothing waits for it to
// succeed: the database may be away while handlers work. A nil recorder records nothing.
type recorder struct {
	guard        *Guard
	db           DB
	subscription string
	log          *slog.Logger
	text         func(error) string
	id           uuid.UUID // of this worker

	away      atomic.Bool // the last call failed; that is logged once
	processed atomic.Int64
	mu        sync.Mutex
	lag       time.Duration // the largest since the last beat; guarded by mu
}

func newRecorder(guard *Guard, opts RouterOptions) *recorder {
	if opts.Database == nil {
		return nil
	}
	text := opts.ErrorText
	if text == nil {
		text = error.Error
	}
	return &recorder{
		guard: guard, db: opts.Database, subscription: opts.Subscription, log: opts.Log, text: text, id: uuid.New(),
	}
}

// call runs one statement, even if ctx has ended: what it records has happened.
func (r *recorder) call(ctx context.Context, do func(context.Context, pgx.Tx) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, r.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return do(ctx, tx) })
	if err != nil && !r.away.Swap(true) {
		r.log.Warn("failures cannot be recorded", "error", err.Error())
	}
	if err == nil && r.away.Swap(false) {
		r.log.Info("failures are recorded again")
	}
	return err == nil
}

// failure is what is recorded of one.
type failure struct {
	attempts int
	gaveUp   bool
	// kept: the outbox of this database has the event, and can publish a copy.
	kept bool
}

// failed records that a handler failed. False means that it could not.
func (r *recorder) failed(ctx context.Context, d Delivery, err error, giveUp bool, limit int) (f failure, recorded bool) {
	id, problem := wire.ParseID(d.Attributes[AttrEventID])
	if r == nil || problem != nil {
		return failure{}, false
	}
	recorded = r.call(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, callFailed, r.guard.Consumer(), id.String(), d.Attributes[AttrEventType],
			cmp.Or(d.Attributes[wire.AttrNamespace], "default"), d.Attributes[wire.AttrTenantID], d.OrderingKey,
			cmp.Or(d.Subscription, r.subscription), cutError(r.text(err)), giveUp, limit).Scan(&f.attempts, &f.gaveUp, &f.kept)
	})
	return f, recorded
}

// recovered removes what was recorded of events that were handled after all.
func (r *recorder) recovered(ctx context.Context, ids ...string) {
	if r == nil || len(ids) == 0 {
		return
	}
	r.call(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, callRecovered, r.guard.Consumer(), ids)
		return err
	})
}

// done counts an event for the rate and the lag that are shown.
func (r *recorder) done(d Delivery) {
	if r == nil {
		return
	}
	r.processed.Add(1)
	if created, err := time.Parse(time.RFC3339Nano, d.Attributes[AttrCreatedAt]); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lag = max(r.lag, time.Since(created))
	}
}

// run says every few seconds that the worker runs, until ctx ends.
func (r *recorder) run(ctx context.Context) {
	if r == nil {
		return
	}
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	after, before := uuid.Nil, time.Now()
	for r.beat(ctx, 0, nil, &after); ; {
		select {
		case <-ctx.Done():
			r.call(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, callBeat, r.beatArgs(nil, nil, uuid.Nil)...)
				return err
			})
			return
		case now := <-ticker.C:
			rate := float64(r.processed.Swap(0)) / max(now.Sub(before).Seconds(), 0.001)
			before = now
			r.mu.Lock()
			lag := r.lag.Seconds()
			r.lag = 0
			r.mu.Unlock()
			if rate == 0 {
				r.beat(ctx, rate, nil, &after)
			} else {
				r.beat(ctx, rate, &lag, &after)
			}
		}
	}
}

func (r *recorder) beatArgs(rate, lag *float64, after uuid.UUID) []any {
	return []any{
		r.id.String(), r.guard.Consumer(), r.subscription, hostname(), os.Getpid(), rate, lag, after.String(), recheck,
	}
}

// beat says how fast the worker is, and removes failures of events that are marked as processed:
// another worker handled them, or this one died before it could say so. It looks at some of them
// each time, from after on.
func (r *recorder) beat(ctx context.Context, rate float64, lag *float64, after *uuid.UUID) {
	var failed []string
	ok := r.call(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, callBeat, r.beatArgs(&rate, lag, *after)...)
		if err != nil {
			return err
		}
		failed, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	*after = uuid.Nil
	if !ok || len(failed) == 0 {
		return
	}
	if len(failed) == recheck {
		*after, _ = uuid.Parse(failed[len(failed)-1])
	}
	handled, err := r.guard.handled(ctx, failed)
	if err == nil {
		r.recovered(ctx, handled...)
	}
}

// handled returns those events that are marked as processed.
func (g *Guard) handled(ctx context.Context, ids []string) (done []string, err error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	pipe := g.rdb.Pipeline()
	for _, id := range ids {
		pipe.Get(ctx, Key(g.consumer, uuid.MustParse(id)))
	}
	answers, _ := pipe.Exec(ctx) // each has its own error
	for i, answer := range answers {
		value, ok := answer.(interface{ Val() string })
		if answer.Err() != nil || !ok {
			continue
		}
		if state, _, _ := ParseValue(value.Val()); state == StateProcessed {
			done = append(done, ids[i])
		}
	}
	return done, ctx.Err()
}

// cutError shortens a text that PostgreSQL is to take.
func cutError(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if len(text) <= maxErrorBytes {
		return text
	}
	end := maxErrorBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

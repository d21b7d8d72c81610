package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/wait"
	"github.com/outboxctl/outboxctl/internal/words"
)

const (
	// HoldNote is the note of a pause that HoldTopics makes. One that is found was left by a run that
	// ended early.
	HoldNote = "outboxctl topic ensure creates the topic and its subscriptions; if it was interrupted, run it again"

	holdPoll = 250 * time.Millisecond
	// holdLooks is how many looks in a row must find nothing under way: a claim that began before its
	// publisher knew of the pause may commit just behind one.
	holdLooks = 3
	// holdPatience is how long publishers are waited for: one that has died counts as alive for half
	// of it.
	holdPatience = 2 * AliveFor
)

const (
	// One at a time replaces subscriptions: Pub/Sub would delete one that another run has just
	// created. The lock is a transaction's, so that it holds behind a pooler too.
	lockHold = `SELECT set_config('lock_timeout', '60s', true), set_config('idle_in_transaction_session_timeout', '0', true), pg_advisory_xact_lock(1870034018, 4)`

	hasPauses = `SELECT to_regclass('outbox_pauses') IS NOT NULL`
)

// selectSending counts the publishers that do not obey the pauses yet, and tells whether events of
// the topics are claimed.
func selectSending() string {
	return `
SELECT (SELECT count(*) FROM outbox_publishers
         WHERE last_seen_at > now() - $1::interval AND NOT coalesce(state -> 'pauses' @> $2::text::jsonb, false)),
       EXISTS (SELECT FROM outbox_events
                WHERE published_at IS NULL AND dead_at IS NULL AND ` + Leased + ` @> seq AND ` + Chosen("$3") + `)`
}

// HoldParams names topics whose subscriptions are about to be made or replaced.
type HoldParams struct {
	Topics []string
	Actor  string
	// Waiting is told once that publishers are waited for; may be nil.
	Waiting func()
}

// HoldTopics pauses topics and returns when no publisher sends to them any more. release lifts the
// pauses, except those that an operator had made. A process that ends before leaves them in force,
// and the next HoldTopics takes them over.
func (o *Outbox) HoldTopics(ctx context.Context,
	p HoldParams) (release func(context.Context) error, err error) {
	installed, err := One[bool](ctx, o.DB, "look for pauses", hasPauses)
	if err != nil {
		return nil, err
	}
	if !installed { // then no publisher runs
		return func(context.Context) error { return nil }, nil
	}
	tx, err := o.DB.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return nil, err
	}
	h := topicHold{Outbox: o, HoldParams: p, tx: tx, before: map[string]Pause{}}
	if err = h.begin(ctx); err == nil {
		err = h.wait(ctx)
	}
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx)) // the error is the one to report
		return nil, err
	}
	return h.release, nil
}

type topicHold struct {
	*Outbox
	HoldParams
	tx     pgx.Tx // has the lock
	before map[string]Pause
}

func (h *topicHold) begin(ctx context.Context) error {
	if _, err := h.tx.Exec(ctx, lockHold); err != nil {
		return err
	}
	pauses, err := Pauses(ctx, h.DB)
	if err != nil {
		return err
	}
	for _, p := range pauses {
		if p.Kind == PauseTopic {
			h.before[p.Value] = p
		}
	}
	for _, topic := range h.Topics {
		if p, paused := h.before[topic]; paused && p.Until == nil {
			continue
		}
		if _, err := h.Pause(ctx, h.pause(topic)); err != nil {
			return err
		}
	}
	return nil
}

func (h *topicHold) pause(topic string) PauseParams {
	return PauseParams{Kind: PauseTopic, Value: topic, Actor: h.Actor, Note: HoldNote}
}

// wait returns when every living publisher has told that it obeys the pauses, and what it had
// claimed is settled.
func (h *topicHold) wait(ctx context.Context) error {
	var held []string
	var types Types
	for _, topic := range h.Topics {
		held = append(held, Pause{Kind: PauseTopic, Value: topic}.Name())
		types = types.Or(h.Registry.Names().OnTopic(topic))
	}
	began := time.Now()
	for clean := 0; clean < holdLooks; {
		var publishers int64
		var claimed bool
		if err := h.DB.QueryRow(ctx, selectSending(), AliveFor, JSON{held},
			types.Texts()).Scan(&publishers, &claimed); err != nil {
			return err
		}
		if clean++; publishers > 0 || claimed {
			clean = 0
			if h.Waiting != nil {
				h.Waiting()
				h.Waiting = nil
			}
		}
		if time.Since(began) > holdPatience {
			return h.giveUp(ctx, publishers)
		}
		if err := wait.For(ctx, holdPoll); err != nil {
			return err
		}
	}
	return nil
}

// giveUp lifts the pauses again: nothing was changed yet.
func (h *topicHold) giveUp(ctx context.Context, publishers int64) error {
	err := fault.Hint(fault.Preconditionf("%s did not stop sending to %s within %s", words.Counted(publishers, "publisher"),
		strings.Join(h.Topics, ", "), words.Seconds(holdPatience.Seconds())), "outboxctl stats lists the publishers; stop them, then run this again")
	if lift := h.release(ctx); lift != nil {
		return lift
	}
	return err
}

// release puts the pauses back as they were found.
func (h *topicHold) release(ctx context.Context) error {
	for _, topic := range h.Topics {
		p, paused := h.before[topic]
		var err error
		switch again := h.pause(topic); {
		case paused && p.Until == nil && p.Note != HoldNote:
		case paused && p.Until != nil && time.Until(*p.Until) > time.Second:
			again.For, again.Note = time.Until(*p.Until), p.Note
			_, err = h.Pause(ctx, again)
		default:
			again.Note = "the topic and its subscriptions exist"
			var r PauseResult
			if r, err = h.Resume(ctx, again); r.Outcome == NotPaused {
				err = nil // somebody has lifted it meanwhile
			}
		}
		if err != nil {
			return fmt.Errorf("resume topic %s: %w", topic, err)
		}
	}
	return h.tx.Rollback(ctx)
}

// Unreached is what was published to a topic while a subscription did not get it.
type Unreached struct {
	Topic string
	// Events counts them, up to unreachedBound.
	Events       int64
	Since, Until time.Time
}

const unreachedBound = 1_000_000

// Unreached counts what was published to a topic in the time for which its subscriptions keep
// messages.
func (o *Outbox) Unreached(ctx context.Context, topic string, kept time.Duration) (Unreached, error) {
	now, err := o.Now(ctx)
	if err != nil {
		return Unreached{}, err
	}
	u := Unreached{Topic: topic, Since: now.Add(-kept).Truncate(time.Second),
		Until: now.Truncate(time.Second).Add(time.Second)}
	// A walk over the index of published_at, of the newest rows.
	err = o.DB.QueryRow(ctx, `
SELECT count(*) FROM (
       SELECT FROM outbox_events
        WHERE published_at >= $1::timestamptz AND published_at < $2::timestamptz AND `+Chosen("$3")+`
        LIMIT $4) AS events`, u.Since, u.Until, o.Registry.Names().OnTopic(topic).Texts(), unreachedBound).Scan(&u.Events)
	return u, err
}

// Command publishes it once more.
func (u Unreached) Command() string {
	return fmt.Sprintf("outboxctl event republish --topic %s --since %s --until %s", u.Topic,
		u.Since.UTC().Format(time.RFC3339), u.Until.UTC().Format(time.RFC3339))
}

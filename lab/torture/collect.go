package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// collect writes the final state of the outbox's database into the history. The database writes
// each observation as the history has it, but for its clock.
func (w *world) collect(ctx context.Context) {
	rowTimes := func(r *history.Row) []*time.Time { return append(times(&r.State), &r.RemovedAt) }
	each(ctx, w, w.truth, `SELECT jsonb_set(torture_row(e), '{state,lease}', jsonb_build_object('by', l.owner, 'until', l.until))
		FROM outbox_events AS e
		LEFT JOIN outbox_leases AS l ON l.seqs @> e.seq AND e.published_at IS NULL AND e.dead_at IS NULL`, rowTimes)
	each(ctx, w, w.truth, `SELECT body FROM torture_removed`, rowTimes)
	w.collectChanges(ctx)
	each(ctx, w, w.truth, `SELECT jsonb_build_object('txId', tx, 'eventId', event_id, 'line', line, 'data', data)
		FROM torture_ledger`, func(*history.LedgerRow) []*time.Time { return nil })
	each(ctx, w, w.truth, `SELECT jsonb_build_object('id', id, 'eventId', event_id, 'reason', error_reason, 'state', state,
		'attempts', attempt_count, 'failedAt', failed_at, 'error', error_message, 'payload', payload_json::text)
		FROM outbox_dlq`, func(l *history.Letter) []*time.Time { return []*time.Time{&l.FailedAt} })
	each(ctx, w, w.truth, `SELECT jsonb_build_object('id', id, 'at', at, 'actor', actor, 'action', action, 'note', note,
		'affected', affected, 'detail', detail)
		FROM outbox_audit`, func(a *history.Audit) []*time.Time { return []*time.Time{&a.At} })
}

// collectEffects writes what the consumers did. The clock of their database is ours.
func (w *world) collectEffects(ctx context.Context) {
	each(ctx, w, w.outcome, `SELECT jsonb_build_object('consumer', consumer, 'eventId', event_id, 'count', count(*))
		FROM (SELECT consumer, event_id FROM torture_effects
			UNION ALL SELECT '`+exampleConsumer+`', event_id FROM notifications) AS effects
		GROUP BY consumer, event_id`, func(*history.Effect) []*time.Time { return nil })
	each(ctx, w, w.outcome, `SELECT jsonb_build_object('at', at, 'consumer', consumer, 'eventId', event_id)
		FROM torture_runs ORDER BY at`, func(*history.Handled) []*time.Time { return nil })
}

// each records the observations that a query returns, after it has moved their times to our clock.
func each[T any](ctx context.Context, w *world, pool *pgxpool.Pool, query string, times func(*T) []*time.Time) {
	rows := rig.Must(pool.Query(ctx, query))
	defer rows.Close()
	for rows.Next() {
		var o T
		rig.Check(rows.Scan(&o))
		w.toOurClock(times(&o)...)
		w.rec.Add(o)
	}
	rig.Check(rows.Err())
}

// toOurClock moves times of the outbox's database.
func (w *world) toOurClock(times ...*time.Time) {
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(-w.skew)
		}
	}
}

func times(s *history.State) []*time.Time {
	return []*time.Time{&s.Lease.Until, &s.Published, &s.Dead, &s.Next, &s.Passed}
}

// collectChanges makes one change of all that a transaction did to a row and to the lease that
// names it.
func (w *world) collectChanges(ctx context.Context) {
	rows := rig.Must(w.truth.Query(ctx, `SELECT seq, at, txid, event_id::text, app, deleted, before, coalesce(after, '{}'), lease
		FROM torture_changes ORDER BY seq`))
	defer rows.Close()
	var all []*history.Change
	last := map[string]*history.Change{}
	for rows.Next() {
		var c history.Change
		var before *history.State
		var after history.State
		var named *history.Lease
		rig.Check(rows.Scan(&c.Seq, &c.At, &c.TxID, &c.EventID, &c.By, &c.Deleted, &before, &after, &named))
		known := last[c.EventID]
		if known == nil || known.TxID != c.TxID {
			if known != nil {
				c.Before, c.After = known.After, known.After
			}
			known = &c
			all, last[c.EventID] = append(all, known), known
			if before != nil {
				before.Lease = known.Before.Lease
				known.Before = *before
			}
		}
		known.Seq, known.Deleted = c.Seq, c.Deleted
		if named == nil {
			after.Lease = known.After.Lease
			known.After = after
		} else {
			known.After.Lease = *named
		}
	}
	rig.Check(rows.Err())
	for _, c := range all {
		w.toOurClock(slices.Concat([]*time.Time{&c.At}, times(&c.Before), times(&c.After))...)
		w.rec.Add(*c)
	}
}

// record notes what reached the broker and what it answered.
func (w *world) record(at time.Time, a devstack.PublishAnswer) {
	now := time.Now()
	for i, m := range a.Messages {
		arrival := history.Arrival{
			At: at, Answered: now, Request: a.Number, EventID: m.GetAttributes()["event_id"], Topic: path.Base(a.Topic),
			Stored: i < len(a.Stored), ReplyLost: a.ReplyLost, OrderingKey: m.GetOrderingKey(),
		}
		if a.Err != nil {
			arrival.Code = status.Code(a.Err).String()
		}
		if arrival.Stored {
			arrival.MessageID, arrival.Data, arrival.Attributes = a.Stored[i], string(m.GetData()), m.GetAttributes()
			// The fake and a stream number messages under the lock that they store them under.
			id := a.Stored[i]
			arrival.Order, _ = strconv.ParseInt(id[strings.LastIndexAny(id, "m/")+1:], 10, 64)
			if w.cfg.Broker == "http" {
				arrival.MessageID = arrival.EventID // a service gives none
			}
		}
		w.rec.Add(arrival)
	}
}

// gauges are what a process must not collect, and how much more of it than at first is no sign of
// collecting: pools open connections as they are needed and close them later.
func gauges() map[string]int {
	return map[string]int{"go_goroutines": 80, "process_open_fds": 40}
}

// measure reads the gauges of every process that serves metrics.
func (w *world) measure() map[string]int {
	found := map[string]int{}
	for name, addr := range w.http {
		values, err := scrape(addr)
		if err != nil {
			continue // it has just been killed
		}
		for gauge := range gauges() {
			if v, ok := values[gauge]; ok {
				found[name+" "+gauge] = v
			}
		}
	}
	return found
}

func scrape(addr string) (map[string]int, error) {
	client := &http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	values := map[string]int{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = int(n)
		}
	}
	return values, lines.Err()
}

// compare records the gauges of two measurements.
func (w *world) compare(first, last map[string]int) {
	for name, v := range last {
		_, gauge, _ := strings.Cut(name, " ")
		if before, ok := first[name]; ok {
			w.rec.Add(history.Resource{Name: name, First: before, Last: v, Slack: gauges()[gauge]})
		}
	}
}

// compareStats holds what stats says against the tables. Nothing moves any more, and a slow machine
// has the time that it needs.
func (w *world) compareStats(ctx context.Context, sh *shell) {
	sh.env = append(slices.Clone(sh.env), "OUTBOXCTL_DATABASE_READ_TIMEOUT=5m")
	c := sh.run(ctx, "", "", "stats", "-o", "json")
	var said stats.Report
	if err := json.Unmarshal([]byte(c.Stdout), &said); err != nil {
		rig.Check(fmt.Errorf("read stats: %w: %s", err, c.Stderr))
	}
	s := history.Stats{Said: map[string]int64{
		"backlog": said.Backlog, "due": said.Due, "backingOff": said.BackingOff, "inFlight": said.InFlight,
		"dead": said.Dead, "dlqOpen": said.DLQ.Open,
	}}
	rig.Check(w.truth.QueryRow(ctx, `
		SELECT jsonb_build_object(
		       'backlog', count(*) FILTER (WHERE living), 'inFlight', count(*) FILTER (WHERE living AND leased),
		       'due', count(*) FILTER (WHERE living AND NOT leased AND next_attempt_at <= now()),
		       'backingOff', count(*) FILTER (WHERE living AND NOT leased AND next_attempt_at > now()),
		       'dead', count(*) FILTER (WHERE dead_at IS NOT NULL), 'dlqOpen', (SELECT count(*) FROM outbox_dlq WHERE state = 'open'))
		  FROM (SELECT *, published_at IS NULL AND dead_at IS NULL AS living,
		               EXISTS (SELECT FROM outbox_leases AS l WHERE l.until > now() AND l.seqs @> o.seq) AS leased
		          FROM outbox_events AS o) AS e`).Scan(&s.Truth))
	w.rec.Add(s)
}

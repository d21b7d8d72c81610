package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// The criteria of a consumer.
const (
	minConsumeRate     = 2_000.0 // events per second
	maxRedisRoundTrips = 2.0     // per event: begin and done
)

// ErrEffects means that a consumer's figures mean nothing.
var ErrEffects = errors.New("not every event took effect exactly once")

// Consumption is what a consumer did with the events.
type Consumption struct {
	// Redis is the server the keys were kept on, RedisRoundTrips how often it was asked, per event.
	Redis           string  `json:"redis"`
	RedisRoundTrips float64 `json:"redisRoundTripsPerEvent"`
	// Handle is the time from receiving an event to its outcome.
	Handle Percentiles `json:"handle"`
	// Effects and Inbox are what is there afterwards: notices and inbox rows of events that were
	// emitted. Each must equal the events. Repeated counts events with more than one notice.
	Effects  int64 `json:"effects"`
	Inbox    int64 `json:"inboxRows"`
	Repeated int64 `json:"repeated"`
}

// exact reports whether every event took effect once.
func (c *Consumption) exact(events int64) bool {
	return c.Effects == events && c.Inbox == events && c.Repeated == 0
}

// lines prints it for a person.
func (c *Consumption) lines(line func(name, format string, args ...any)) {
	line("receive to done", "%s", c.Handle)
	line("Redis", "%.2f round trips/event on %s", c.RedisRoundTrips, c.Redis)
	line("effects", "%s events, %s inbox rows, %d repeated", humanize.Comma(c.Effects), humanize.Comma(c.Inbox), c.Repeated)
}

// inboxSQL is how many events have been consumed, and for how long.
const inboxSQL = `SELECT count(*), coalesce(extract(epoch FROM max(processed_at) - min(processed_at)), 0)::float8 FROM inbox_events`

// effectsSQL counts, over the events emitted, what consuming left behind.
const effectsSQL = `
SELECT count(*) FILTER (WHERE n.notices >= 1), count(*) FILTER (WHERE n.notices > 1), count(i.event_id)
  FROM outbox_events AS e
  LEFT JOIN (SELECT event_id, count(*) AS notices FROM notifications GROUP BY event_id) AS n ON n.event_id = e.id
  LEFT JOIN inbox_events AS i ON i.event_id = e.id`

// consuming publishes events to a NATS server, unmeasured, and measures the example consumer on
// them. Google's fake gives each stream one message per 10 ms: with it a bench measures the fake.
func consuming(ctx context.Context, s *Session, p Params) *Report {
	p.Broker, p.types = toNATS, []eventType{license()}
	if s.Redis == nil {
		s.StartRedis(ctx)
	}
	return s.trial(ctx, p, func(t *Trial) *Report {
		redis, through := t.counted(s.Redis.URL())
		t.emit(ctx, p.Events)
		p.say("consume: publishing")
		t.publish(ctx)
		t.ended = usage{metrics: metrics{}}
		p.say("consume: consuming, keys on %s", s.Redis.Kind)
		before := t.counters(ctx)
		worker := t.serve(append(t.env(), "OUTBOXCTL_REDIS_URL="+through), "consume", "--example", "--subscription", t.to.subscription)
		var done int
		var seconds float64
		last, limit := -1, patience
		for done < t.emitted {
			// Once it has stopped moving, what is missing is an error below.
			if err := rig.Eventually(ctx, limit, func() bool {
				worker.check()
				rig.Check(t.pool.QueryRow(ctx, inboxSQL).Scan(&done, &seconds))
				return done > last
			}); err != nil {
				break
			}
			last = done
		}
		said := metrics{}
		said.read(rig.Must(worker.get(ctx, "/metrics")))
		worker.end(ctx, &t.ended)
		report, c := t.report(), &Consumption{Redis: s.Redis.Kind, RedisRoundTrips: float64(redis.RoundTrips()) / float64(t.emitted),
			Handle: said.percentiles("outbox_consumer_handle_seconds")}
		report.Extra, report.Publishers, report.MemoryBytes = c, 0, t.ended.memory
		report.Seconds, report.EventsPerSecond = seconds, float64(done)/seconds
		after := t.counters(ctx)
		report.WALBytesPerEvent = float64(after.wal-before.wal) / float64(t.emitted)
		report.Spent = t.spent(before, after)
		report.Spent.ConsumerMicros, report.Spent.PublisherMicros = report.Spent.PublisherMicros, 0
		rig.Check(t.pool.QueryRow(ctx, effectsSQL).Scan(&c.Effects, &c.Repeated, &c.Inbox))
		if !c.exact(int64(t.emitted)) {
			rig.Check(&wrongError{fmt.Errorf("%w: of %d events %+v", ErrEffects, t.emitted, *c), report})
		}
		if p.Check {
			report.AtLeast("events per second of "+notifications.Consumer, report.EventsPerSecond, minConsumeRate)
			report.AtMost("Redis round trips per event", c.RedisRoundTrips, maxRedisRoundTrips)
		}
		return report
	})
}

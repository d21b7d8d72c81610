package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/words"
)

// Params are what Run examines. The servers come as functions that reach them: one that cannot be
// reached is a finding, and does not keep Run from examining the others.
type Params struct {
	Registry *registry.Registry
	// Now is this machine's clock, to be compared with the database's.
	Now func() time.Time

	Database func(ctx context.Context) (*pgread.DB, error)
	// ExecMode is how statements are sent to it.
	ExecMode string
	// RemoteDatabase reports whether it is on another machine.
	RemoteDatabase bool
	// MaxAttempts is the publisher's maximum, for the rows that have none of their own.
	MaxAttempts int

	// Kind is that of the broker.
	Kind broker.Kind
	// Broker is the broker, with the topics and subscriptions that it should have; nil when it is not
	// configured.
	Broker func(ctx context.Context) (broker.Broker, []broker.PlannedTopic, error)
	// Emulator is the address events go to instead of the real broker, and EmulatorOrigin where it was
	// set; empty: none.
	Emulator, EmulatorOrigin string

	Redis func(ctx context.Context) (consume.ServerReport, error)
	// NeedsRedis: Redis or a consumer is configured. Otherwise nothing that is examined here uses it.
	NeedsRedis bool
	// IdempotencyTTL is how long Redis remembers that an event was processed.
	IdempotencyTTL time.Duration
}

// Run examines the outbox and what it depends on. It changes nothing.
func Run(ctx context.Context, p Params) ([]Finding, error) {
	findings := Examine(ctx, p.checks(ctx))
	for i := range findings {
		findings[i].Message = safetext.Redact(findings[i].Message)
	}
	return findings, ctx.Err()
}

// hurried bounds a check's wait for a lock while somebody is known to hold one.
const hurried = 500 * time.Millisecond

// checks are all checks that can be made. Those of the tables need a database that answers.
func (p Params) checks(ctx context.Context) []Check {
	checks := []Check{{Area: "configuration", Name: "environment", Run: p.environment}}
	ordered := func(context.Context) (bool, error) { return false, nil }
	pool, err := p.Database(ctx)
	if err != nil {
		checks = append(checks, Check{
			Area: "database", Name: "connection", Remedy: "check database.url with outboxctl config view",
			Run: func(context.Context) ([]Finding, error) { return nil, err },
		})
	} else {
		// Who is in the way already would be waited for by one check after the other.
		if blockers, err := pool.Blockers(ctx); err == nil && len(blockers) > 0 {
			pool = pool.With(pgread.Limits{Statement: pool.Statement, Lock: min(pool.Lock, hurried)})
		}
		database := Database{
			Pool: pool, EventTypes: p.Registry.EventTypes(), ExecMode: p.ExecMode,
			XminHeldFor: DefaultXminHeldFor, LockWait: DefaultLockWait, Now: p.Now,
		}
		checks = append(append(checks, database.Checks()...), schemaCheck(pool))
		// Without tables there is nothing to say but that the schema is missing.
		var empty bool
		if err := pool.QueryRow(ctx, `SELECT to_regclass('outbox_events') IS NULL`).Scan(&empty); err != nil || !empty {
			checks = append(append(checks, database.TableChecks()...), p.publisherCheck(pool), p.eventIDCheck(pool), p.limitsCheck(pool))
			ordered = func(ctx context.Context) (some bool, err error) {
				return some, pool.QueryRow(ctx, orderedEvents).Scan(&some)
			}
		}
	}
	checks = append(checks,
		Check{Area: p.Kind.Name, Name: "topics", Remedy: p.Kind.Remedy, Run: func(ctx context.Context) ([]Finding, error) {
			return p.broker(ctx, ordered)
		}},
		Check{
			Area: "redis", Name: "keys", Run: p.redis,
			Remedy: "check redis.url; consumers stop while Redis is away, publishers do not need it",
		},
	)
	for i, c := range checks {
		checks[i].Run = func(ctx context.Context) ([]Finding, error) {
			found, err := c.Run(ctx)
			return found, fault.Database(err)
		}
	}
	return checks
}

// environment looks for half a laptop in a production configuration, or the reverse.
func (p Params) environment(context.Context) ([]Finding, error) {
	if p.Emulator == "" || !p.RemoteDatabase {
		return ok("no emulator left set beside a remote database"), nil
	}
	return fail("unset PUBSUB_EMULATOR_HOST and OUTBOXCTL_PUBSUB_EMULATOR",
		"pubsub.emulator is %s (%s) while the database is elsewhere: events would go to an emulator", p.Emulator, p.EmulatorOrigin), nil
}

func schemaCheck(pool *pgread.DB) Check {
	return Check{Area: "database", Name: "schema", Run: func(ctx context.Context) ([]Finding, error) {
		v, err := migrate.Version(ctx, pool, migrate.Options{})
		switch {
		case err != nil:
			return nil, err
		case v.Database > v.Binary:
			return warn("upgrade outboxctl", "the schema is at version %d, this binary knows %d", v.Database, v.Binary), nil
		case v.Pending > 0:
			return fail("outboxctl migrate", "the schema is at version %d of %d: %d steps are missing", v.Database, v.Binary, v.Pending), nil
		}
		found, err := Drift(ctx, pool)
		if err == nil && found == nil {
			found = ok("version %d, as this binary expects", v.Database)
		}
		return found, err
	}}
}

// otherIDs counts, among the newest events, those whose envelope has an id of its own. No index has
// every event in the order of seq, so the newest are taken from the end of
// outbox_events_seq_claim_idx and of outbox_events_published_at_idx.
const otherIDs = `
SELECT count(*)
  FROM (SELECT id, payload_json
          FROM ((SELECT id, payload_json, seq FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL ORDER BY seq DESC LIMIT 1000)
                UNION ALL
                (SELECT id, payload_json, seq FROM outbox_events WHERE published_at IS NOT NULL ORDER BY published_at DESC LIMIT 1000)) AS ends
         ORDER BY seq DESC LIMIT 1000) AS newest
 WHERE lower(payload_json ->> 'eventId') <> id::text`

func (p Params) eventIDCheck(pool *pgread.DB) Check {
	return Check{Area: "emitters", Name: "event ids", Remedy: "outboxctl migrate", Run: func(ctx context.Context) ([]Finding, error) {
		var n int64
		if err := pool.QueryRow(ctx, otherIDs).Scan(&n); err != nil {
			return nil, err
		}
		if n == 0 {
			return ok("the newest envelopes have their rows' ids"), nil
		}
		return warn("emit with outbox_emit or the emit package; until then consumers must go by the attribute event_id",
			"%s of the newest 1,000 events have an eventId in their envelope that is not the row's id", words.Count(n)), nil
	}}
}

// limitsCheck looks whether emitters in SQL are held to what the destination takes.
func (p Params) limitsCheck(pool *pgread.DB) Check {
	return Check{Area: "emitters", Name: "limits", Remedy: "outboxctl migrate", Run: func(ctx context.Context) ([]Finding, error) {
		recorded, err := registry.Recorded(ctx, pool)
		if err != nil {
			return nil, err
		}
		if recorded.Limits() == p.Kind.Limits {
			return ok("outbox_emit refuses what %s does not take", p.Kind.Name), nil
		}
		return warn("with this broker configured record the catalogue, which outboxctl registry export "+recorded.Source+" prints: outboxctl registry apply FILE",
			"outbox_emit goes by the limits of another destination than %s: what that does not take dies instead of being refused", p.Kind.Name), nil
	}}
}

func (p Params) publisherCheck(pool *pgread.DB) Check {
	return Check{Area: "publishers", Name: "alive", Remedy: "outboxctl migrate", Run: func(ctx context.Context) ([]Finding, error) {
		report, err := stats.Collect(ctx, pool, p.Registry, stats.Params{MaxAttempts: p.MaxAttempts, StateOnly: true})
		if err != nil {
			return nil, err
		}
		var found []Finding
		for _, s := range report.Stranded {
			remedy := "outboxctl publish --catalogue database"
			if s.Told {
				remedy = fmt.Sprintf("outboxctl publish --namespace %s", safetext.QuoteWord(s.Namespace))
			}
			found = append(found, warn(remedy, "%s", s)...)
		}
		found = append(found, topicFindings(report)...)
		switch {
		case len(report.Publishers) > 0:
			found = append(found, ok("%d alive", len(report.Publishers))...)
		case report.Backlog > 0:
			found = append(found, fail("outboxctl publish", "none is alive and %d events wait", report.Backlog)...)
		default:
			found = append(found, warn("outboxctl publish", "none is alive")...)
		}
		return found, nil
	}}
}

// topicFindings are the topics that cannot be published to, each with the publishers that found out
// and the longest outage.
func topicFindings(report *stats.Report) (found []Finding) {
	var topics [][]stats.TopicState
	for _, t := range report.Topics {
		i := slices.IndexFunc(topics, func(same []stats.TopicState) bool { return same[0].Topic == t.Topic && same[0].State == t.State })
		if i < 0 {
			topics = append(topics, []stats.TopicState{t})
			continue
		}
		topics[i] = append(topics[i], t)
	}
	for _, same := range topics {
		var at []string
		outage := 0.0
		for _, t := range same {
			at, outage = append(at, t.Publisher), max(outage, t.OutageSeconds(report.At))
		}
		found = append(found, warn("outboxctl topic list shows what exists; publishing resumes by itself",
			"topic %s has been %s for %s at %s: %s", same[0].Topic, same[0].State, words.Seconds(outage), someOf(at), same[0].Error)...)
	}
	return found
}

func (p Params) redis(ctx context.Context) ([]Finding, error) {
	report, err := p.Redis(ctx)
	switch {
	case err != nil && !p.NeedsRedis:
		return ok("no Redis is configured; only consumers need one"), nil
	case err != nil:
		return nil, err
	}
	var found []Finding
	for _, w := range report.Warnings {
		found = append(found, warn("CONFIG SET maxmemory-policy noeviction", "%s", w)...)
	}
	if p.IdempotencyTTL < p.Kind.Retention {
		found = append(found, warn("raise idempotency.ttl", "idempotency.ttl is %s, but the broker may redeliver for %s", p.IdempotencyTTL, p.Kind.Retention)...)
	}
	if found == nil {
		found = ok("Redis %s stores the processed-event keys", report.Version)
	}
	return found, nil
}

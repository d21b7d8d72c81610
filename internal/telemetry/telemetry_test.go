package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/telemetry"
)

func row() *dispatch.Claimed {
	return &dispatch.Claimed{
		Key: dispatch.Key{ID: "e1"}, EventType: "order_created", AggregateType: "checkout_group", AggregateID: "a1",
		Payload: []byte(`{"secret":"payload"}`), CreatedAt: time.Now().Add(-time.Second),
	}
}

// attempts is one of each outcome.
func attempts() []dispatch.Attempt {
	away := dispatch.NewFailure(dispatch.Retryable, "Unavailable", errors.New("dial postgres://u:hunter2@h/db: \x1b[31mrefused"))
	return []dispatch.Attempt{
		{Row: row(), Topic: "domain", Outcome: dispatch.OutcomePublished, Number: 1},
		{Row: row(), Topic: "domain", Outcome: dispatch.OutcomeFailed, Number: 2, Delay: time.Second, Err: away},
		{Row: row(), Topic: "domain", Outcome: dispatch.OutcomeDead, Number: 10, Reason: outbox.ReasonMaxAttempts, Err: away},
		{Row: row(), Topic: "domain", Outcome: dispatch.OutcomeReleased, Number: 1, Err: dispatch.NewFailure(dispatch.Misconfigured, "NotFound", errors.New("no topic"))},
	}
}

func TestMetricsCountEveryOutcome(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m := telemetry.NewMetrics(r, []string{"domain", "billing"})
	m.Claimed(dispatch.ClaimReport{Rows: 4, Sweep: true, Took: time.Millisecond})
	m.Published("domain", time.Millisecond, attempts())
	m.Settled(dispatch.SettleReport{Rows: 4, Lost: 3})
	m.TopicChanged(dispatch.TopicReport{Topic: "domain", State: dispatch.TopicUnreachable})
	m.Trouble("listen", errors.New("no"))
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP outbox_breaker_state 1 for the state a topic is in: healthy, recovering, unreachable or misconfigured.
# TYPE outbox_breaker_state gauge
outbox_breaker_state{state="healthy",topic="billing"} 1
outbox_breaker_state{state="healthy",topic="domain"} 0
outbox_breaker_state{state="recovering",topic="billing"} 0
outbox_breaker_state{state="recovering",topic="domain"} 0
outbox_breaker_state{state="misconfigured",topic="billing"} 0
outbox_breaker_state{state="misconfigured",topic="domain"} 0
outbox_breaker_state{state="unreachable",topic="billing"} 0
outbox_breaker_state{state="unreachable",topic="domain"} 1
# HELP outbox_claimed_total Events claimed.
# TYPE outbox_claimed_total counter
outbox_claimed_total 4
# HELP outbox_dead_total Events moved to the dead-letter table.
# TYPE outbox_dead_total counter
outbox_dead_total{reason="aggregate_mismatch"} 0
outbox_dead_total{reason="erased"} 0
outbox_dead_total{reason="expired"} 0
outbox_dead_total{reason="invalid_payload"} 0
outbox_dead_total{reason="max_attempts"} 1
outbox_dead_total{reason="message_too_large"} 0
outbox_dead_total{reason="rejected_by_broker"} 0
outbox_dead_total{reason="unknown_event_type"} 0
# HELP outbox_errors_total Errors that no event and no topic is to blame for.
# TYPE outbox_errors_total counter
outbox_errors_total{doing="listen"} 1
# HELP outbox_failed_total Attempts to publish that failed and will be repeated.
# TYPE outbox_failed_total counter
outbox_failed_total{code="Unavailable",topic="domain"} 1
# HELP outbox_lease_lost_total Events whose verdict was refused because their lease had passed to another publisher.
# TYPE outbox_lease_lost_total counter
outbox_lease_lost_total 3
# HELP outbox_published_total Events the broker has acknowledged.
# TYPE outbox_published_total counter
outbox_published_total{topic="billing"} 0
outbox_published_total{topic="domain"} 1
# HELP outbox_released_total Claimed events given back without losing an attempt.
# TYPE outbox_released_total counter
outbox_released_total{topic="billing"} 0
outbox_released_total{topic="domain"} 1
`), "outbox_breaker_state", "outbox_claimed_total", "outbox_dead_total", "outbox_errors_total", "outbox_failed_total",
		"outbox_lease_lost_total", "outbox_published_total", "outbox_released_total"))
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// Rows that die unsent have no topic; a series without one is a hole in every sum by topic.
func TestNoSeriesHasAnEmptyTopic(t *testing.T) {
	t.Parallel()
	r := prometheus.NewPedanticRegistry()
	m := telemetry.NewMetrics(r, []string{"domain"})
	telemetry.RegisterProcess(r, "v1.2.3", "abc", "go1.26")
	m.Published("", 0, []dispatch.Attempt{{Row: row(), Outcome: dispatch.OutcomeDead, Reason: outbox.ReasonUnknownEventType}})
	families, err := r.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				require.NotEmpty(t, label.GetValue(), "%s of %s", label.GetName(), family.GetName())
			}
		}
	}
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP outbox_build_info 1, with the version of outboxctl in its labels.
# TYPE outbox_build_info gauge
outbox_build_info{commit="abc",go_version="go1.26",version="v1.2.3"} 1
`), "outbox_build_info"))
}

func logTo(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

func TestLogNamesTheEventAndKeepsSecrets(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := telemetry.NewLog(logTo(&out, slog.LevelDebug))
	l.Published("domain", time.Millisecond, attempts())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 4)
	for _, line := range lines {
		for _, field := range []string{`"event_id":"e1"`, `"event_type":"order_created"`, `"aggregate_type":"checkout_group"`, `"aggregate_id":"a1"`, `"topic":"domain"`, `"attempt":`} {
			require.Contains(t, line, field)
		}
	}
	require.Contains(t, lines[0], `"level":"DEBUG"`)
	require.Contains(t, lines[0], `"took_ms":1`)
	require.Contains(t, lines[1], `"retry_in_ms":`)
	require.Contains(t, lines[1], `"level":"WARN"`)
	require.Contains(t, lines[2], `"level":"ERROR"`)
	for _, secret := range []string{"hunter2", "payload", "\x1b", `\u001b`} {
		require.NotContains(t, out.String(), secret)
	}

	out.Reset()
	telemetry.NewLog(logTo(&out, slog.LevelInfo)).Published("domain", 0, attempts()[:1])
	require.Empty(t, out.String(), "a published event is not worth a line in production")

	told := telemetry.NewLog(logTo(&out, slog.LevelInfo))
	told.TellPublished()
	told.Published("domain", 0, attempts()[:1])
	require.Contains(t, out.String(), `"msg":"published"`)
}

func TestLogTellsTheSameTroubleOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := telemetry.NewLog(logTo(&out, slog.LevelInfo))
		for range 100 {
			l.Claimed(dispatch.ClaimReport{Err: errors.New("connection refused")})
			<-time.After(300 * time.Millisecond)
		}
		require.Equal(t, 3, strings.Count(out.String(), "cannot claim"), "thirty seconds, three lines")
	})
}

func TestBacklogShowsNothingItHasNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		var troubles, taken atomic.Int64
		var fail atomic.Bool
		fail.Store(true)
		b := telemetry.NewBacklog(r, func(context.Context) (stats.Sample, error) {
			taken.Add(1)
			if fail.Load() {
				return stats.Sample{}, errors.New("away")
			}
			return stats.Sample{Backlog: 12, OldestAgeSeconds: 30, AtMaxAttempts: 2, Scheduled: 4, DLQOpen: map[string]int64{"max_attempts": 3},
				Consumers: []stats.Consumer{{Consumer: "mailer", Failing: 2, GaveUp: 1, LagSeconds: new(float64)}, {Consumer: "search"}}}, nil
		}, func() telemetry.Current { return telemetry.Current{Events: 5, Bytes: 500, StoodDown: 1} }, func(string, error) { troubles.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		<-time.After(time.Minute)
		require.Zero(t, taken.Load(), "nobody has scraped")
		require.Equal(t, 3, testutil.CollectAndCount(b), "what the publisher knows of itself needs no query")
		require.Equal(t, int64(1), troubles.Load())
		fail.Store(false)
		<-time.After(15 * time.Second)
		testutil.CollectAndCount(b)
		<-time.After(5 * time.Second)
		require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP outbox_backlog_events Events neither published nor dead nor parked nor scheduled.
# TYPE outbox_backlog_events gauge
outbox_backlog_events 12
# HELP outbox_blocked_keys Ordering keys that stand still behind a dead event.
# TYPE outbox_blocked_keys gauge
outbox_blocked_keys 0
# HELP outbox_claimable_events Events that could be claimed now, counted up to 100000: what more publishers would help with.
# TYPE outbox_claimable_events gauge
outbox_claimable_events 0
# HELP outbox_consumer_age_seconds Age of the oldest event that a consumer's workers handled in the last seconds; 0 while they handle none.
# TYPE outbox_consumer_age_seconds gauge
outbox_consumer_age_seconds{consumer="mailer"} 0
outbox_consumer_age_seconds{consumer="search"} 0
# HELP outbox_consumer_failing_events Events that a consumer fails to handle, and tries again.
# TYPE outbox_consumer_failing_events gauge
outbox_consumer_failing_events{consumer="mailer"} 2
outbox_consumer_failing_events{consumer="search"} 0
# HELP outbox_consumer_gave_up_events Events that a consumer failed to handle, and does not try again by itself.
# TYPE outbox_consumer_gave_up_events gauge
outbox_consumer_gave_up_events{consumer="mailer"} 1
outbox_consumer_gave_up_events{consumer="search"} 0
# HELP outbox_dlq_open Open dead letters.
# TYPE outbox_dlq_open gauge
outbox_dlq_open{reason="aggregate_mismatch"} 0
outbox_dlq_open{reason="erased"} 0
outbox_dlq_open{reason="expired"} 0
outbox_dlq_open{reason="invalid_payload"} 0
outbox_dlq_open{reason="max_attempts"} 3
outbox_dlq_open{reason="message_too_large"} 0
outbox_dlq_open{reason="rejected_by_broker"} 0
outbox_dlq_open{reason="unknown_event_type"} 0
# HELP outbox_in_flight_bytes Payload bytes of this publisher between claim and settle.
# TYPE outbox_in_flight_bytes gauge
outbox_in_flight_bytes 500
# HELP outbox_in_flight_events Events of this publisher between claim and settle.
# TYPE outbox_in_flight_events gauge
outbox_in_flight_events 5
# HELP outbox_max_attempts_events Unpublished events that have no attempts left: waiting ones, and dead ones with an open dead letter.
# TYPE outbox_max_attempts_events gauge
outbox_max_attempts_events 2
# HELP outbox_oldest_unpublished_age_seconds Age of the oldest event neither published nor dead nor parked nor scheduled; of one that was scheduled, since its time.
# TYPE outbox_oldest_unpublished_age_seconds gauge
outbox_oldest_unpublished_age_seconds 35
# HELP outbox_parked_events Events that wait behind a dead one of their ordering key.
# TYPE outbox_parked_events gauge
outbox_parked_events 0
# HELP outbox_pauses Pauses in force: topics, types, tenants and namespaces that operators have paused.
# TYPE outbox_pauses gauge
outbox_pauses 0
# HELP outbox_scheduled_events Events that wait for their time.
# TYPE outbox_scheduled_events gauge
outbox_scheduled_events 4
# HELP outbox_stood_down_types Event types that this publisher leaves alone: an event does not fit its catalogue, and the recorded one says something else.
# TYPE outbox_stood_down_types gauge
outbox_stood_down_types 1
`)))
		require.Equal(t, int64(2), taken.Load(), "a scrape soon after another is told the same")
		cancel()
		<-done
	})
}

package cmd_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestPublishSendsTheStoredBytesAndAttributes(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	ids := append(r.emit(120, "order_created"), r.emit(30, "payment_settled")...)
	require.Zero(t, r.start("--once").wait())
	require.Equal(t, 150, r.published())
	require.Len(t, r.stored(), len(ids))
	for _, m := range r.pubsub.Stored() {
		var body, messageID string
		var row outbox.Event
		require.NoError(t, r.db.Pool.QueryRow(t.Context(), `
SELECT payload_json::text, broker_message_id, event_type::text, aggregate_type::text, aggregate_id::text, created_at
  FROM outbox_events WHERE id = $1::text::uuid`, m.Attributes["event_id"]).Scan(
			&body, &messageID, &row.EventType, &row.AggregateType, &row.AggregateID, &row.CreatedAt))
		require.Equal(t, body, string(m.Data))
		require.Equal(t, messageID, m.ID)
		require.Equal(t, wire.Attributes(wire.Row{
			ID: m.Attributes["event_id"], EventType: row.EventType, AggregateType: row.AggregateType, AggregateID: row.AggregateID,
			Namespace: "default", CreatedAt: row.CreatedAt, Headers: map[string]string{"traceparent": "00-1"},
		}), m.Attributes)
		topic := "projects/" + r.pubsub.Project + "/topics/the-domain"
		if row.EventType == "payment_settled" {
			topic = "projects/" + r.pubsub.Project + "/topics/the-billing"
		}
		require.Equal(t, topic, m.Topic)
	}
}

// A program that writes rows itself puts what it likes into headers: no consumer takes them for the tenant, the
// namespace, the key or the place of an event, and no number of them pushes the true ones out.
func TestHeadersOfAPlainInsertForgeNoAttribute(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	const tenant = "0192d3a0-7777-7000-8000-000000000007"
	insert := func(fillers int, tenant, key string) (id string) {
		id = uuid.NewString()
		require.NoError(t, r.sql(`
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, tenant_id, dedupe_key, ordering_key, headers)
SELECT $1::text::uuid, 'order_expired', 'vendor_order', gen_random_uuid(), jsonb_build_object('version', 1, 'eventId', $1::text,
       'occurredAt', '2026-01-01T00:00:00Z', 'data', jsonb_build_object('orderId', gen_random_uuid(), 'checkoutGroupId', gen_random_uuid(),
       'expiredAt', '2026-01-01T00:00:00Z')), nullif($2::text, '')::uuid, nullif($3::text, ''), 'default/' || nullif($3::text, ''),
       '{"tenant_id": "forged", "namespace": "forged", "dedupe_key": "forged", "event_seq": "1", "Tenant_Id": "forged", "EVENT_ID": "forged"}'::jsonb
       || coalesce((SELECT jsonb_object_agg('h' || n, 'x') FROM generate_series(1, $4::int) AS n), '{}')`, id, tenant, key, fillers))
		return id
	}
	bare, full := insert(0, "", ""), insert(91, tenant, tenant+"/7")
	tooMany := []string{insert(94, tenant, ""), insert(92, tenant, tenant+"/8"), insert(95, "", "")}
	require.Equal(t, 5, r.start("--once").wait(), "some died")

	standard := func(id string) map[string]string {
		got := map[string]string{}
		for name, value := range r.attributesOf(id) {
			if !strings.HasPrefix(name, "h") && name != "created_at" && name != "aggregate_id" {
				got[name] = value
			}
		}
		return got
	}
	want := map[string]string{"event_id": bare, "event_type": "order_expired", "aggregate_type": "vendor_order", "namespace": "default"}
	require.Equal(t, want, standard(bare))
	want["event_id"], want["tenant_id"], want["dedupe_key"] = full, tenant, tenant+"/7"
	want["event_seq"] = strconv.Itoa(r.count(`SELECT seq FROM outbox_events WHERE id = $1::text::uuid`, full))
	require.Equal(t, want, standard(full))
	require.Len(t, r.attributesOf(full), 100)
	require.Len(t, r.stored(), 2)
	require.Equal(t, len(tooMany), r.count(`SELECT count(*) FROM outbox_dlq WHERE error_reason = 'message_too_large' AND event_id = ANY ($1::text[]::uuid[])`, tooMany))
}

// Payloads and times travel as text where a pooler forbids prepared statements.
func TestTheDatabasesOwnDefaultsChangeNothing(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	for _, set := range []string{`datestyle = 'German'`, `client_encoding = 'LATIN1'`, `timezone = 'Asia/Kathmandu'`, `intervalstyle = 'sql_standard'`} {
		_, err := r.db.Pool.Exec(t.Context(), `ALTER DATABASE `+r.db.Name+` SET `+set)
		require.NoError(t, err)
	}
	for i, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		r.emit(10, "order_created")
		_, err := r.db.Pool.Exec(t.Context(), `
SELECT outbox_emit('order_expired', 'vendor_order', gen_random_uuid(), headers => '{"price": "5 \u20ac"}', data => jsonb_build_object(
           'orderId', gen_random_uuid(), 'checkoutGroupId', gen_random_uuid(), 'expiredAt', '2026-01-01T00:00:00Z'))`)
		require.NoError(t, err)
		require.Zero(t, r.start("--once", "--exec-mode", mode).wait())
		require.Equal(t, 11*(i+1), r.published(), mode)
	}
	priced := 0
	for _, m := range r.pubsub.Stored() {
		if m.Attributes["price"] == "5 €" {
			priced++
		}
	}
	require.Equal(t, 3, priced)
}

func TestThreePublishersLoseAndDuplicateNothing(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	var publishers []*publisher
	for range 3 {
		publishers = append(publishers, r.startProcess("--lease", "120s"))
	}
	for range 10 {
		r.emit(300, "order_created")
	}
	r.settled(3000)
	for id, n := range r.stored() {
		require.Equal(t, 1, n, id)
	}
	require.Equal(t, 3, r.count(`SELECT count(*) FROM outbox_publishers WHERE last_seen_at > now() - interval '1 minute'`))
	for _, p := range publishers {
		p.signal(syscall.SIGTERM)
		require.Equal(t, 143, p.wait())
	}
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_publishers`), "a clean exit removes the row")
}

func TestRejectedMessageIsIsolated(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	ids := r.emit(60, "order_created")
	r.pubsub.RejectMessages(func(_ string, m *pubsubpb.PubsubMessage) bool { return m.Attributes["event_id"] == ids[17] })
	require.Equal(t, 5, r.start("--once").wait())
	require.Equal(t, 59, r.published())
	require.Equal(t, 1, r.count(`SELECT count(*) FROM outbox_dlq WHERE event_id = $1::text::uuid AND error_reason = 'rejected_by_broker' AND topic = 'domain'`, ids[17]))
	require.Equal(t, 1, r.count(`SELECT count(*) FROM outbox_dlq`))
	for id, n := range r.stored() {
		require.Equal(t, 1, n, id)
	}
}

func TestOutageCostsAtMostOneAttempt(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	p := r.start("--max-attempts", "2")
	r.emit(50, "order_created")
	r.settled(50)
	r.pubsub.Disconnect()
	r.emit(300, "order_created")
	r.emit(20, "payment_settled")
	eventually(t, "both topics unreachable", func() bool {
		return len(p.said("topic is unreachable: the broker does not answer, its events are not claimed and keep their attempts")) >= 2
	})
	code, body := p.get("/readyz")
	require.Equal(t, 503, code)
	require.Contains(t, body, "topic domain")
	require.Contains(t, body, "topic billing")
	code, _ = p.get("/healthz")
	require.Equal(t, 200, code)
	eventually(t, "the heartbeat shows the open topic", func() bool {
		return r.count(`SELECT count(*) FROM outbox_publishers WHERE state @> '{"topics":[{"topic":"domain","state":"unreachable"}]}'`) == 1
	})
	require.NoError(t, r.pubsub.Reconnect())
	r.settled(370)
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_dlq`))
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_events WHERE attempt_count > 1`))
	eventually(t, "ready again", func() bool { code, _ := p.get("/readyz"); return code == 200 })
}

func TestMissingTopicPausesUntilItIsThere(t *testing.T) {
	t.Parallel()
	r := &publishRig{t: t, db: outboxtest.DB(t), pubsub: outboxtest.PubSub(t)}
	r.ensure("domain", "analytics", "notifications")
	r.emit(40, "payment_settled")
	r.emit(40, "order_created")
	p := r.start()
	r.settled(40)
	eventually(t, "the topic is misconfigured", func() bool {
		return len(p.said("topic is misconfigured: the broker refuses it, its events are not claimed and keep their attempts")) == 1
	})
	_, body := p.get("/readyz")
	require.Contains(t, body, "topic billing")
	_, metrics := p.get("/metrics")
	require.Contains(t, metrics, `outbox_breaker_state{state="misconfigured",topic="billing"} 1`)
	require.Contains(t, metrics, `outbox_published_total{topic="domain"} 40`)
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_events WHERE attempt_count > 0`))
	r.ensure("billing")
	r.settled(80)
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_events WHERE attempt_count > 0`))
}

func TestOnceSaysWhichTopicItLeftAlone(t *testing.T) {
	t.Parallel()
	r := &publishRig{t: t, db: outboxtest.DB(t), pubsub: outboxtest.PubSub(t)}
	r.ensure("domain")
	r.emit(5, "payment_settled")
	r.emit(5, "order_created")
	p := r.start("--once")
	require.Equal(t, 5, p.wait())
	require.Equal(t, 5, r.published())
	require.Contains(t, p.output(), "topic billing is misconfigured")
}

// A run that has left something to be done does not look like one that has not.
func TestOnceExitsWithTheCounts(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	r.emit(3, "order_created")
	_, err := r.db.Pool.Exec(t.Context(), `
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json)
VALUES (gen_random_uuid(), 'order_created', 'checkout_group', gen_random_uuid(), '{}')`)
	require.NoError(t, err)
	p := r.start("--once")
	require.Equal(t, 5, p.wait())
	require.Contains(t, p.output(), "3 events published, but 1 died")
	require.Contains(t, p.output(), "outboxctl dlq list")
	require.Zero(t, r.start("--once").wait(), "an old death is none of its own")
}

// A schema attached to a topic refuses every message with the code of a bad one.
func TestTopicThatRefusesEverythingKillsNothing(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	r.pubsub.RejectMessages(func(topic string, _ *pubsubpb.PubsubMessage) bool { return strings.HasSuffix(topic, "the-billing") })
	r.emit(200, "payment_settled")
	r.emit(20, "order_created")
	p := r.start("--once")
	require.Equal(t, 5, p.wait())
	require.Contains(t, p.output(), "20 events published, but topic billing is misconfigured: the topic accepts no message")
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_events WHERE dead_at IS NOT NULL OR attempt_count > 0`))
	r.pubsub.RejectMessages(nil)
	require.Zero(t, r.start("--once").wait())
	r.settled(220)
}

func TestTermWaitsForTheBrokerAndLeavesNoLease(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	reached := make(chan struct{}, 100)
	r.pubsub.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
		reached <- struct{}{}
		return devstack.PublishFault{Delay: 2 * time.Second}
	})
	r.emit(500, "order_created")
	p := r.startProcess()
	<-reached
	p.signal(syscall.SIGTERM)
	require.Equal(t, 143, p.wait())
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_leases`))
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_events WHERE attempt_count > 0`))
	require.Positive(t, r.published())
	require.Len(t, r.stored(), r.published(), "what was sent is settled, what was not is released")
}

func TestKilledPublishersRowsAreTakenOver(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	var block atomic.Bool
	block.Store(true)
	reached := make(chan struct{}, 100)
	r.pubsub.OnPublish(func(context.Context, devstack.PublishCall) devstack.PublishFault {
		if block.Load() {
			reached <- struct{}{}
			return devstack.PublishFault{Delay: time.Minute}
		}
		return devstack.PublishFault{}
	})
	r.emit(200, "order_created")
	lease := []string{"--lease", "4s", "--publish-timeout", "2s"}
	victim := r.startProcess(lease...)
	<-reached
	victim.signal(syscall.SIGKILL)
	require.Equal(t, 137, victim.wait())
	block.Store(false)
	eventually(t, "what the dead one had begun is over", func() bool {
		return r.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'outboxctl publish%'`) == 0
	})
	held := r.count(`SELECT count(*) FROM outbox_event_status WHERE locked_by IS NOT NULL`)
	require.Positive(t, held)
	r.start(lease...)
	r.settled(200)
	require.Equal(t, held, r.count(`SELECT count(*) FROM outbox_events WHERE attempt_count = 1 AND last_error LIKE 'lease of publisher % expired without a verdict'`))
}

func TestZombieSettlesNothing(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	var first atomic.Bool
	reached, carryOn := make(chan struct{}), make(chan struct{})
	r.pubsub.OnPublish(func(ctx context.Context, _ devstack.PublishCall) devstack.PublishFault {
		if first.CompareAndSwap(false, true) {
			close(reached)
			<-carryOn
		}
		return devstack.PublishFault{}
	})
	r.emit(1, "order_created")
	zombie := r.startProcess("--lease", "30s", "--publish-timeout", "20s")
	<-reached
	r.freeze(zombie)
	close(carryOn)
	// The lease ends, as time would end it, while the zombie stands still with the broker's answer in its socket.
	_, err := r.db.Pool.Exec(t.Context(), `UPDATE outbox_leases SET until = now() - interval '1 second'`)
	require.NoError(t, err)
	r.start()
	r.settled(1)
	var heir string
	require.NoError(t, r.db.Pool.QueryRow(t.Context(), `SELECT broker_message_id FROM outbox_events`).Scan(&heir))
	zombie.signal(syscall.SIGCONT)
	const lost = "lease lost: another publisher owns these events now, nothing was changed"
	eventually(t, "the zombie notices", func() bool { return len(zombie.said(lost)) == 1 })
	require.Equal(t, 1, r.count(`SELECT count(*) FROM outbox_events WHERE broker_message_id = $1 AND attempt_count = 1`, heir))
	_, metrics := zombie.get("/metrics")
	require.Contains(t, metrics, "outbox_lease_lost_total 1")
}

func TestDatabaseRestartIsSurvived(t *testing.T) {
	t.Parallel()
	server, db := outboxtest.Postgres(t, devstack.PostgresParams{})
	r := publishRigOn(t, db)
	p := r.start()
	r.emit(100, "order_created")
	r.settled(100)
	require.NoError(t, server.Restart(t.Context()))
	db.Pool.Reset()
	r.emit(100, "order_created")
	r.settled(200)
	code, _ := p.get("/healthz")
	require.Equal(t, 200, code)
	p.end()
}

func TestRetryableFailuresEndInTheDeadLetters(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	ids := r.emit(10, "order_created")
	r.pubsub.OnPublish(func(_ context.Context, call devstack.PublishCall) devstack.PublishFault {
		for _, m := range call.Messages {
			if m.Attributes["event_id"] == ids[3] {
				return devstack.PublishFault{Err: status.Error(codes.Internal, "cannot store password=hunter2")}
			}
		}
		return devstack.PublishFault{}
	})
	p := r.start("--max-attempts", "2", "--backoff-base", "10ms", "--backoff-max", "20ms", "--batch-size", "1")
	eventually(t, "the event dies", func() bool {
		return r.count(`SELECT count(*) FROM outbox_dlq WHERE event_id = $1::text::uuid AND error_reason = 'max_attempts' AND attempt_count = 2`, ids[3]) == 1
	})
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_dlq WHERE error_message LIKE '%hunter2%'`))
	require.NotContains(t, p.output(), "hunter2")
}

func TestPublishRefusesALeaseThatIsTooShort(t *testing.T) {
	t.Parallel()
	r := newPublishRig(t)
	p := r.start("--lease", "5s", "--publish-timeout", "10s")
	require.Equal(t, 2, p.wait())
	require.Contains(t, p.output(), "publish.lease (5s) must be longer than publish.publish_timeout (10s)")
	p = r.start("--event-type", "nonsense")
	require.Equal(t, 2, p.wait())
	p = r.start("--tenant", "nonsense")
	require.Equal(t, 2, p.wait())
}

func TestPublishNamesAnUnmigratedDatabase(t *testing.T) {
	t.Parallel()
	r := publishRigOn(t, outboxtest.EmptyDB(t))
	p := r.start()
	require.Equal(t, 4, p.wait())
	require.Contains(t, p.output(), "outboxctl migrate")
}

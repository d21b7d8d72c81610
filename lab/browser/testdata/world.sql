-- A shop's outbox on a bad morning. Every id is made from a number, every time is relative to now: each run sees the same.
CREATE FUNCTION pg_temp.id(kind text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
$$ SELECT (overlay(overlay(md5(kind || n)::text placing '0193' from 1 for 4) placing '7' from 13 for 1))::uuid $$;

CREATE TEMP TABLE causes (reason outbox_dlq_reason, type text, aggregate text, topic text, fingerprint text, error text, n int, hours numeric, every numeric);
INSERT INTO causes VALUES
 ('max_attempts', 'payment_settled', 'ledger_event', 'billing', 'max_attempts:billing-deadline', 'publish to projects/shop/topics/billing: rpc error: code = DeadlineExceeded desc = context deadline exceeded', 412, 0.1, 0.012),
 ('max_attempts', 'notification_requested', 'notification', 'notifications', 'max_attempts:notify-unavailable', 'publish to projects/shop/topics/notifications: rpc error: code = Unavailable desc = connection refused', 187, 1.5, 0.02),
 ('message_too_large', 'media_uploaded', 'media', 'domain', 'message_too_large:size', 'message of 10,485,812 bytes is larger than the broker takes (10,485,760)', 42, 3, 0.3),
 ('invalid_payload', 'order_canceled', 'vendor_order', 'domain', 'invalid_payload:canceledAt', 'payload: data.canceledAt: required by version 1 of order_canceled, but missing', 23, 6, 0.5),
 ('unknown_event_type', 'ad_expired', 'ad', 'analytics', 'unknown_event_type:ad_expired', 'event type ad_expired, version 3: the catalogue knows versions 1 to 2', 9, 12, 1),
 ('rejected_by_broker', 'vendor_payout_recorded', 'ledger_event', 'billing', 'rejected_by_broker:permission', 'publish to projects/shop/topics/billing: rpc error: code = PermissionDenied desc = User not authorized to perform this action', 3, 20, 0.9);

-- The dead: their events, and their letters.
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, dead_at, attempt_count, last_error)
SELECT pg_temp.id('event' || c.fingerprint, i), c.type::event_type_enum, c.aggregate::aggregate_type_enum, pg_temp.id('aggregate' || c.fingerprint, i / 3), '{"data": {"secret": "canary-7f3a"}}',
       now() - make_interval(secs => 3600 * (c.hours + i * c.every) + 1900), now() - make_interval(secs => 3600 * (c.hours + i * c.every)), CASE c.reason WHEN 'max_attempts' THEN 25 ELSE 1 END, c.error
  FROM causes AS c, generate_series(0, c.n - 1) AS i;
INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint, event_created_at)
SELECT pg_temp.id('letter' || c.fingerprint, i), e.id, e.event_type, e.aggregate_type, e.aggregate_id, e.payload_json, c.reason, c.error, e.attempt_count, e.dead_at, c.topic, c.fingerprint, e.created_at
  FROM causes AS c, generate_series(0, c.n - 1) AS i JOIN LATERAL (SELECT * FROM outbox_events WHERE id = pg_temp.id('event' || c.fingerprint, i)) AS e ON true;

-- What was published, one of them with a fixed id, and what waits.
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, published_at, attempt_count, broker_message_id)
SELECT CASE i WHEN 7 THEN '01930000-0000-7000-8000-0000000000e1' ELSE pg_temp.id('published', i) END,
       (ARRAY['order_created', 'order_state_changed', 'reservation_released', 'payment_settled']::event_type_enum[])[1 + i % 4],
       (ARRAY['checkout_group', 'vendor_order', 'vendor_order', 'ledger_event']::aggregate_type_enum[])[1 + i % 4], pg_temp.id('order', i / 4), '{"data": {"secret": "canary-7f3a"}}',
       now() - make_interval(secs => 2 + i * 2.4), now() - make_interval(secs => 1.6 + i * 2.4), 1, (118824410000000 + i)::text
  FROM generate_series(1, 1600) AS i;
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, attempt_count, next_attempt_at, last_error)
SELECT pg_temp.id('waiting', i), (ARRAY['payment_settled', 'cash_collected', 'order_created']::event_type_enum[])[1 + i % 3], (ARRAY['ledger_event', 'vendor_order', 'checkout_group']::aggregate_type_enum[])[1 + i % 3],
       pg_temp.id('order', 5000 + i / 2), '{"data": {"secret": "canary-7f3a"}}', now() - make_interval(secs => i * 1.5), CASE WHEN i > 40 THEN 4 ELSE 0 END, CASE WHEN i > 40 THEN now() + interval '40 seconds' ELSE now() END,
       CASE WHEN i > 40 THEN 'publish to projects/shop/topics/billing: rpc error: code = DeadlineExceeded desc = context deadline exceeded' END
  FROM generate_series(1, 120) AS i;

-- One dead letter with fixed ids, which an operator replayed once before.
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, dead_at, attempt_count, last_error)
VALUES ('01930000-0000-7000-8000-0000000000e2', 'payment_settled', 'ledger_event', pg_temp.id('aggregatemax_attempts:billing-deadline', 0),
        '{"version": 1, "eventId": "01930000-0000-7000-8000-0000000000e2", "occurredAt": "2026-03-01T12:00:00Z", "data": {"orderId": "01930000-0000-7000-8000-0000000000a2", "paymentIntentId": "canary-7f3a", "amountCents": 4711, "settledAt": "2026-03-01T12:00:00Z"}}',
        now() - interval '3 hours', now() - interval '4 minutes', 25,
        'publish to projects/shop/topics/billing: rpc error: code = DeadlineExceeded desc = context deadline exceeded');
INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint, event_created_at, state, state_changed_at)
SELECT v.id::uuid, e.id, e.event_type, e.aggregate_type, e.aggregate_id, e.payload_json, 'max_attempts', e.last_error, 25, v.at, 'billing', 'max_attempts:billing-deadline', e.created_at, v.state, v.changed
  FROM outbox_events AS e, (VALUES ('01930000-0000-7000-8000-0000000000d0', now() - interval '2 hours', 'replayed', now() - interval '70 minutes'), ('01930000-0000-7000-8000-0000000000d1', now() - interval '4 minutes', 'open', NULL)) AS v(id, at, state, changed)
 WHERE e.id = '01930000-0000-7000-8000-0000000000e2';
INSERT INTO outbox_audit (at, actor, action, note, affected, detail)
VALUES (now() - interval '70 minutes', 'ben@example.com', 'dlq.replay', 'billing answered again for a while', 1, '{"eventIds": ["01930000-0000-7000-8000-0000000000e2"], "via": "cli"}');
UPDATE outbox_dlq SET audit_id = (SELECT max(id) FROM outbox_audit) WHERE id = '01930000-0000-7000-8000-0000000000d0';

-- Two publishers; to one of them a topic does not answer. They are seen in the future, so that they live as long as a journey.
INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state)
SELECT pg_temp.id('publisher', i), 'worker-' || i, 40 + i, 'v0.1.0', now() - interval '9 hours', now() + interval '1 hour',
       jsonb_build_object('inFlight', 12 * i, 'published', 48211, 'topics', CASE i WHEN 2 THEN jsonb_build_array(jsonb_build_object('topic', 'billing', 'state', 'unreachable', 'since', now() - interval '14 minutes', 'code', 'DeadlineExceeded', 'error', 'context deadline exceeded')) ELSE '[]' END)
  FROM generate_series(1, 2) AS i;
ANALYZE outbox_events, outbox_dlq;

-- The last eight days: a wave by day, with attempts that fail now and then, and deaths.
WITH counted AS (
    SELECT h, j, v.topic, v.name, round(v.n * (20 + 9 * sin((j - 60 * h) / 230.0) + 6 * sin((j - 60 * h) / 11.0)))::int AS n, v.n AS scale, abs(j - 60 * h) AS t
      FROM generate_series(0, 25) AS h, generate_series(0, 59) AS j,
           (VALUES ('domain', 'order_created', 3), ('billing', 'payment_settled', 1), ('domain', '', 3), ('billing', '', 1), ('', '', 4)) AS v(topic, name, n)),
figured AS (
    SELECT c.h, c.j, c.topic, c.name, f.k,
           CASE f.k WHEN 0 THEN n WHEN 1 THEN n - n / 9 WHEN 2 THEN CASE WHEN t % 97 < 9 THEN scale * (9 - t % 97) ELSE 0 END WHEN 3 THEN CASE WHEN t % 97 = 3 THEN scale * 2 ELSE 0 END
                    WHEN 4 THEN n / 3 WHEN 5 THEN n / 3 WHEN 6 THEN n / 5 WHEN 9 THEN n / 40 + (t % 97 < 9)::int ELSE 0 END AS n
      FROM counted AS c, generate_series(0, 9) AS f(k))
INSERT INTO outbox_history (at, topic, event_type, figures, minutes)
SELECT date_trunc('hour', now(), 'UTC') - h * interval '1 hour', topic, name,
       ARRAY(SELECT sum(i.n)::int FROM unnest(array_agg(f.n ORDER BY k, j)) WITH ORDINALITY AS i(n, o) GROUP BY (i.o - 1) / 60 ORDER BY (i.o - 1) / 60),
       array_agg(f.n ORDER BY k, j)
  FROM figured AS f GROUP BY h, topic, name;
INSERT INTO outbox_history (at, topic, event_type, figures)
SELECT h.at - day * interval '24 hours', h.topic, h.event_type, h.figures FROM outbox_history AS h, generate_series(1, 7) AS day
    ON CONFLICT DO NOTHING;

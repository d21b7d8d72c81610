-- What else can be wrong on a bad morning, for those who look at pages: a blocked key, failing consumers, a paused topic, a publisher
-- that ended with a lease in its hand, long names and long reasons.
WITH e AS (
    INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key, dead_at, attempt_count, last_error, created_at, headers)
    SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', '01930000-0000-7000-8000-0000000000a1', '{"data": {"secret": "canary-7f3a"}}', 'default/vendor_order/01930000-0000-7000-8000-0000000000a1',
           CASE i WHEN 1 THEN now() - interval '50 minutes' END, CASE i WHEN 1 THEN 1 ELSE 0 END, CASE i WHEN 1 THEN E'payload: data.canceledAt: required, but missing\nand a second line' END, now() - interval '1 hour',
           '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
      FROM generate_series(1, 4) AS i ORDER BY i
    RETURNING *)
INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, failed_at, topic, fingerprint, event_created_at)
SELECT '01930000-0000-7000-8000-0000000000d7', id, event_type, aggregate_type, aggregate_id, payload_json, 'invalid_payload', last_error, 1, dead_at, 'domain', 'invalid_payload:canceledAt', created_at FROM e WHERE dead_at IS NOT NULL;

INSERT INTO outbox_consumers (id, consumer, subscription, host, pid, rate, lag, last_seen_at)
SELECT gen_random_uuid(), v.name, v.from, 'worker-' || i, 50 + i, 41.5 * i, v.lag, now() + interval '1 hour'
  FROM generate_series(1, 2) AS i, (VALUES ('mailer', 'projects/shop/subscriptions/mailer', 0.4), ('warehouse-synchronisation-of-the-northern-region', 'projects/shop/subscriptions/warehouse-synchronisation-of-the-northern-region', 724.0)) AS v(name, "from", lag);
INSERT INTO outbox_consumer_failures (consumer, event_id, event_type, namespace, subscription, state, attempts, last_error, first_at, last_at)
SELECT 'warehouse-synchronisation-of-the-northern-region', id, event_type, 'default', 'projects/shop/subscriptions/warehouse-synchronisation-of-the-northern-region', CASE row_number() OVER () % 3 WHEN 0 THEN 'gave_up' ELSE 'failing' END, 7,
       'POST https://warehouse.internal.shop.example.com/v2/reservations answered 503: no stock server is available for region north', now() - interval '2 hours', now() - interval '1 minute'
  FROM (SELECT id, event_type FROM outbox_events WHERE published_at IS NOT NULL ORDER BY seq LIMIT 6) AS e;

INSERT INTO outbox_pauses (kind, value, actor, note, at, until) VALUES ('topic', 'notifications', 'ben@example.com', 'the mail provider asked us to send less until they have moved to their new data centre', now() - interval '20 minutes', now() + interval '2 hours');
INSERT INTO outbox_publishers (id, host, pid, version, started_at, last_seen_at, state)
VALUES ('01930000-0000-7000-8000-0000000000b1', 'publisher-7d9f8c6b5-x2x4z.eu-west-1.compute.internal', 1, 'v0.1.0', now() - interval '2 days', now() - interval '5 minutes', '{"inFlight": 3}');
INSERT INTO outbox_leases (owner, since, until, seqs)
SELECT '01930000-0000-7000-8000-0000000000b1', now() - interval '5 minutes', now() + interval '1 hour', range_agg(int8range(seq, seq, '[]')) FROM (SELECT seq FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL AND ordering_key IS NULL ORDER BY seq LIMIT 3) AS e;
INSERT INTO outbox_audit (at, actor, action, note, affected, detail)
SELECT now() - make_interval(mins => 10 * i), 'service-account-of-the-night-shift@operations.shop.example.com', a, 'INC-4411: ' || repeat('the provider was away and has answered again since, ', 3), 40 * i, jsonb_build_object('runId', gen_random_uuid(), 'via', 'ui', 'requestId', gen_random_uuid())
  FROM generate_series(1, 3) AS i, unnest(ARRAY['dlq.replay', 'dlq.discard', 'event.retry', 'payload.reveal', 'pause.set']) AS a;

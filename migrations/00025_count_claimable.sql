-- How much work publishers have, for whoever starts more of them. Counting what is not published would count what is
-- dead, parked, paused or scheduled too, for which no publisher can do anything.

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

-- Counts the events that could be claimed now, at most `most` of them. It reads outbox_events_seq_claim_idx in order and
-- stops there. Pauses of topics are looked up in the recorded catalogue; the topics of the built-in one are not known here.
-- +goose StatementBegin
CREATE FUNCTION outbox_claimable(most bigint DEFAULT 10000) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    AS $$
    WITH paused AS MATERIALIZED (
        SELECT array_agg(p.value) FILTER (WHERE p.kind = 'namespace') AS namespaces,
               array_agg(p.value) FILTER (WHERE p.kind = 'tenant') AS tenants,
               coalesce(array_agg(p.value) FILTER (WHERE p.kind = 'type'), '{}') AS types,
               coalesce(array_agg(p.value) FILTER (WHERE p.kind = 'topic'), '{}') AS topics,
               bool_or(p.kind <> 'namespace') AS within_keys
          FROM @schema@.outbox_pauses AS p
         WHERE p.until IS NULL OR p.until > now()
    ), names AS MATERIALIZED (
        -- Each name of a type, former ones too; a pause under one of them holds it under all.
        SELECT t.namespace, n.name, t.event_type <> n.name AS former, t.topic = ANY (p.topics) OR a.every && p.types AS held
          FROM paused AS p
          JOIN @schema@.outbox_event_types AS t ON p.types <> '{}' OR p.topics <> '{}'
         CROSS JOIN LATERAL (SELECT ARRAY(SELECT t.event_type UNION ALL SELECT jsonb_array_elements_text(t.options -> 'was'))) AS a(every)
         CROSS JOIN LATERAL unnest(a.every) AS n(name)
    ), held AS MATERIALIZED (
        -- What waits and is paused by what may differ within an ordering key, a key's first; none is read without such a pause.
        SELECT e.ordering_key, min(e.seq) AS seq
          FROM @schema@.outbox_events AS e, paused AS p
         WHERE p.within_keys AND e.ordering_key IS NOT NULL AND e.published_at IS NULL AND e.dead_at IS NULL
           AND (e.tenant_id::text = ANY (p.tenants)
                OR coalesce((SELECT n.held FROM names AS n WHERE n.name = e.event_type::text AND n.namespace IN ('*', e.namespace)
                              ORDER BY n.namespace = '*', n.former LIMIT 1), e.event_type::text = ANY (p.types)))
         GROUP BY e.ordering_key
    ), blocked AS MATERIALIZED (
        SELECT h.ordering_key, h.seq FROM held AS h
         UNION ALL
        SELECT o.ordering_key, min(o.seq) AS seq
          FROM @schema@.outbox_events AS o
         WHERE o.ordering_key IS NOT NULL AND o.published_at IS NULL AND o.dead_at IS NOT NULL AND o.passed_at IS NULL
         GROUP BY o.ordering_key
         UNION ALL
        SELECT o.ordering_key, min(o.seq)
          FROM @schema@.outbox_events AS o
         WHERE o.deliver_at > now() AND o.published_at IS NULL AND o.dead_at IS NULL AND o.ordering_key IS NOT NULL
         GROUP BY o.ordering_key
    ), leased AS MATERIALIZED (
        SELECT coalesce(range_agg(named), '{}') AS seqs
          FROM @schema@.outbox_leases AS l, unnest(l.seqs) AS named
         WHERE l.until > now()
    )
    SELECT count(*)
      FROM (SELECT 1
              FROM @schema@.outbox_events AS e
             WHERE e.published_at IS NULL AND e.dead_at IS NULL AND e.next_attempt_at <= now()
               AND NOT (SELECT l.seqs FROM leased AS l) @> e.seq
               AND coalesce(e.namespace <> ALL ((SELECT p.namespaces FROM paused AS p)::text[]), true)
               AND coalesce(e.tenant_id::text <> ALL ((SELECT p.tenants FROM paused AS p)::text[]), true)
               AND NOT coalesce((SELECT n.held FROM names AS n WHERE n.name = e.event_type::text AND n.namespace IN ('*', e.namespace)
                                  ORDER BY n.namespace = '*', n.former LIMIT 1), e.event_type::text = ANY ((SELECT p.types FROM paused AS p)::text[]))
               AND (e.ordering_key IS NULL OR NOT EXISTS (SELECT FROM blocked AS b WHERE b.ordering_key = e.ordering_key AND b.seq < e.seq))
             ORDER BY e.seq
             LIMIT greatest(most, 0)) AS claimable
$$;
-- +goose StatementEnd

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_claimable(bigint) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_claimable(bigint) TO outbox_dispatcher');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_claimable(bigint) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_claimable(bigint) TO outbox_viewer');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_claimable(bigint);

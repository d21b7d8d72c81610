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
    WITH blocked AS MATERIALIZED (
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
    ), paused AS MATERIALIZED (
        SELECT array_agg(p.value) FILTER (WHERE p.kind = 'namespace') AS namespaces,
               array_agg(p.value) FILTER (WHERE p.kind = 'tenant') AS tenants,
               array_agg(p.value) FILTER (WHERE p.kind IN ('topic', 'type')) AS others
          FROM @schema@.outbox_pauses AS p
         WHERE p.until IS NULL OR p.until > now()
    ), names AS MATERIALIZED (
        -- Each name of a type, former ones too, and what of it can be paused.
        SELECT t.namespace, n.name, ARRAY[t.event_type, t.topic] AS under
          FROM @schema@.outbox_event_types AS t
         CROSS JOIN LATERAL (SELECT t.event_type UNION ALL SELECT jsonb_array_elements_text(t.options -> 'was')) AS n(name)
         WHERE (SELECT p.others FROM paused AS p) IS NOT NULL
    )
    SELECT count(*)
      FROM (SELECT 1
              FROM @schema@.outbox_events AS e
             WHERE e.published_at IS NULL AND e.dead_at IS NULL AND e.next_attempt_at <= now()
               AND NOT (SELECT l.seqs FROM leased AS l) @> e.seq
               AND coalesce(e.namespace <> ALL ((SELECT p.namespaces FROM paused AS p)::text[]), true)
               AND coalesce(e.tenant_id::text <> ALL ((SELECT p.tenants FROM paused AS p)::text[]), true)
               AND ((SELECT p.others FROM paused AS p) IS NULL
                    OR NOT coalesce((SELECT n.under FROM names AS n
                                      WHERE n.name = e.event_type::text AND n.namespace IN ('*', e.namespace)
                                      ORDER BY n.namespace = '*', n.name <> n.under[1]
                                      LIMIT 1), ARRAY[e.event_type::text]) && (SELECT p.others FROM paused AS p)::text[])
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

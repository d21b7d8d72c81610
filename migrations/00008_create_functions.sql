-- What an operator may change, each with its audit row in the same
-- transaction. The functions run as their owner, so that the operator's role
-- needs no right to write to any table.
-- Those that take a set of ids answer, per id, what became of it. Rows are
-- locked in the order of their ids, so that two operators with overlapping sets
-- wait for each other instead of deadlocking, and the second one finds the
-- first one's work done.

-- +goose Up

-- The audit row of one change; returns its id. eventIds makes the history of
-- one event searchable.
-- +goose StatementBegin
CREATE FUNCTION outbox_audit_change(action text, actor text, note text, detail jsonb, events uuid[], affected bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    audit bigint;
BEGIN
    IF coalesce(btrim(actor), '') = '' THEN
        RAISE EXCEPTION 'actor: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'actor';
    END IF;
    IF jsonb_typeof(detail) <> 'object' THEN
        RAISE EXCEPTION 'detail: must be a JSON object' USING ERRCODE = 'OX300', COLUMN = 'detail';
    END IF;
    INSERT INTO @schema@.outbox_audit (actor, action, note, detail, affected)
    VALUES (actor, action, nullif(btrim(note), ''),
            coalesce(detail, '{}') || jsonb_build_object('eventIds', to_jsonb(events)), affected)
    RETURNING id INTO audit;
    RETURN audit;
END
$$;
-- +goose StatementEnd

-- What an action answers for one row, by the state of the dead letter (NULL: there is none) and of its event. corrected:
-- another event was emitted in the dead letter's place. erased: what it carried is removed. unchanged: the row is as whoever asks saw it, as published or as an
-- earlier change left it; for a retry, that the event does not back off. It is the only place that decides this: the
-- functions below use it for what they did not change, and a dry run asks it before. It reads no table, so every role may
-- call it. Written with RETURN it is bound to pg_catalog when it is made, and needs no call for each row.
-- +goose StatementBegin
CREATE FUNCTION outbox_outcome(action text, state text, found boolean, published boolean, dead boolean, corrected boolean,
    unchanged boolean, erased boolean) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE action
       WHEN 'dlq.replay' THEN
            CASE WHEN state IS NULL THEN 'not_found'
                 WHEN state = 'replayed' THEN 'already_replayed'
                 WHEN state = 'discarded' THEN 'discarded'
                 WHEN erased THEN 'event_erased'
                 WHEN NOT found THEN 'event_gone'
                 WHEN published THEN 'event_published'
                 WHEN NOT dead THEN 'event_live'
                 ELSE 'replayed'
            END
       WHEN 'dlq.discard' THEN
            CASE WHEN state IS NULL THEN 'not_found'
                 WHEN state = 'replayed' THEN 'already_replayed'
                 WHEN state = 'discarded' THEN 'already_discarded'
                 WHEN NOT unchanged THEN 'changed'
                 ELSE 'discarded'
            END
       WHEN 'dlq.restore' THEN
            CASE WHEN state IS NULL THEN 'not_found'
                 WHEN state = 'open' THEN 'already_open'
                 WHEN state = 'replayed' THEN 'already_replayed'
                 WHEN corrected THEN 'already_corrected'
                 WHEN erased THEN 'event_erased'
                 WHEN published THEN 'event_published'
                 WHEN found AND NOT dead THEN 'event_live'
                 WHEN NOT unchanged THEN 'changed'
                 ELSE 'restored'
            END
       WHEN 'dlq.edit' THEN
            CASE WHEN state IS NULL THEN 'not_found'
                 WHEN state = 'replayed' THEN 'already_replayed'
                 WHEN state = 'discarded' AND corrected THEN 'already_corrected'
                 WHEN state = 'discarded' THEN 'discarded'
                 WHEN erased THEN 'event_erased'
                 WHEN published THEN 'event_published'
                 WHEN found AND NOT dead THEN 'event_live'
                 ELSE 'corrected'
            END
       WHEN 'event.republish' THEN
            CASE WHEN NOT found THEN 'not_found'
                 WHEN published AND erased THEN 'event_erased'
                 WHEN published AND unchanged THEN 'republished'
                 WHEN published THEN 'changed'
                 WHEN dead THEN 'dead'
                 ELSE 'not_published'
            END
       WHEN 'event.retry' THEN
            CASE WHEN NOT found THEN 'not_found'
                 WHEN published THEN 'event_published'
                 WHEN dead THEN 'dead'
                 WHEN unchanged THEN 'not_backing_off'
                 ELSE 'retried'
            END
       END;
-- +goose StatementEnd

-- The outcome of an action that did what was asked.
-- +goose StatementBegin
CREATE FUNCTION outbox_success(action text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN CASE action WHEN 'dlq.replay' THEN 'replayed' WHEN 'dlq.discard' THEN 'discarded' WHEN 'dlq.restore' THEN 'restored'
                   WHEN 'dlq.edit' THEN 'corrected' WHEN 'event.republish' THEN 'republished' WHEN 'event.retry' THEN 'retried'
                   WHEN 'event.erase' THEN 'erased' END;
-- +goose StatementEnd

-- Takes events out of leases that still name them: whoever settled them took them out in the same transaction, but a row
-- may have been changed by hand. What is sent once more would otherwise wait for that lease, or get the verdict of its
-- former self.
-- +goose StatementBegin
CREATE FUNCTION outbox_forget_leases(events uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    gone int8multirange;
BEGIN
    SELECT range_agg(int8range(e.seq, e.seq, '[]')) INTO gone FROM @schema@.outbox_events AS e WHERE e.id = ANY (events);
    DELETE FROM @schema@.outbox_leases AS l WHERE l.seqs && gone AND isempty(l.seqs - gone);
    UPDATE @schema@.outbox_leases AS l SET seqs = l.seqs - gone WHERE l.seqs && gone;
END
$$;
-- +goose StatementEnd

-- Emits an event with another payload in the place of a dead one, and discards every open dead letter of that. The new
-- event is what the old one was but for its id, payload and headers, and names the old one in its header
-- corrects. With an ordering key it also has the old one's seq: what waits behind the old one waits for it. Its
-- dedupe key is that of an export of the dead letter, so that it is corrected once, in whichever way; it also has the name
-- that its type has now, under which an export is emitted.
--   corrected · already_corrected · already_replayed · discarded · event_erased · event_live · event_published · not_found
-- +goose StatementBegin
CREATE FUNCTION outbox_correct(dlq_id uuid, new_id uuid, payload jsonb, headers jsonb, actor text, note text DEFAULT NULL, detail jsonb DEFAULT NULL)
    RETURNS TABLE (event_id uuid, outcome text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    letter  record;
    old     record;
    present text;
    former  jsonb;
    dedupe  text;
    emitted uuid;
    held    uuid;
    refusal text[];
    verdict text;
    audit   bigint;
BEGIN
    PERFORM FROM (SELECT d.id FROM @schema@.outbox_dlq AS d
                   WHERE d.event_id = (SELECT n.event_id FROM @schema@.outbox_dlq AS n WHERE n.id = dlq_id)
                     AND (d.state = 'open' OR d.id = dlq_id)
                   ORDER BY d.id
                     FOR UPDATE) AS locked;
    SELECT d.* INTO letter FROM @schema@.outbox_dlq AS d WHERE d.id = dlq_id;
    SELECT e.* INTO old FROM @schema@.outbox_events AS e WHERE e.id = letter.event_id FOR UPDATE;
    verdict := @schema@.outbox_outcome(text 'dlq.edit', letter.state, old.id IS NOT NULL, old.published_at IS NOT NULL, old.dead_at IS NOT NULL,
                                       letter.corrected_by IS NOT NULL, true, letter.erased_at IS NOT NULL);
    dedupe := coalesce(letter.tenant_id::text || '/', '') || 'corrects/' || dlq_id;
    IF verdict = 'corrected' THEN
        SELECT t.event_type INTO present FROM @schema@.outbox_event_types AS t
         WHERE t.namespace IN ('*', letter.namespace) AND (t.event_type = letter.event_type::text OR t.options -> 'was' ? letter.event_type::text)
         ORDER BY t.namespace = '*' LIMIT 1;
        present := coalesce(present, letter.event_type::text);
        headers := coalesce(headers, '{}') || jsonb_build_object('corrects', letter.event_id);
        SELECT coalesce(CASE WHEN c.form = 'standard' THEN @schema@.outbox_envelope_refusal(new_id, payload) END,
                        @schema@.outbox_refusal(new_id, present, letter.aggregate_type::text, letter.aggregate_id::text,
                            CASE WHEN c.form = 'standard' THEN payload -> 'data' ELSE payload END, payload, dedupe, letter.tenant_id, letter.namespace,
                            headers, NULL, CASE WHEN c.form = 'standard' THEN nullif(payload -> 'actor', 'null') END, old.max_attempts,
                            c.aggregate_type, c.form, substr(old.ordering_key, length(letter.namespace) + 2), NULL::timestamptz)), c.former
          INTO refusal, former
          FROM (SELECT) AS one
          LEFT JOIN @schema@.outbox_catalogue_type(present, letter.namespace) AS c ON true;
        IF refusal IS NOT NULL THEN
            RAISE EXCEPTION '%', refusal[2] || ': ' || refusal[3]
                USING ERRCODE = refusal[1], COLUMN = refusal[2], HINT = coalesce(refusal[4], format('outboxctl registry show %s says what fits.', present));
        END IF;
        held := @schema@.outbox_former_event(former, letter.namespace, dedupe);
        INSERT INTO @schema@.outbox_events AS o (id, event_type, aggregate_type, aggregate_id, payload_json, dedupe_key, tenant_id, namespace,
                                        headers, max_attempts, ordering_key, seq)
               OVERRIDING SYSTEM VALUE
        SELECT new_id, @schema@.outbox_event_type(present), letter.aggregate_type, letter.aggregate_id, payload, dedupe, letter.tenant_id, letter.namespace,
               headers, old.max_attempts, old.ordering_key,
               CASE WHEN old.ordering_key IS NULL THEN nextval(pg_get_serial_sequence($table$@schema@.outbox_events$table$, 'seq')) ELSE old.seq END
         WHERE held IS NULL
            ON CONFLICT DO NOTHING
        RETURNING o.id INTO emitted;
        verdict := CASE WHEN emitted IS NULL THEN 'already_corrected' ELSE verdict END;
    END IF;
    IF verdict = 'already_corrected' THEN
        emitted := coalesce(letter.corrected_by, held, (
            SELECT o.id FROM @schema@.outbox_events AS o
             WHERE o.dedupe_key = dedupe AND o.event_type = @schema@.outbox_event_type(present) AND o.namespace = letter.namespace));
    ELSIF emitted IS NOT NULL THEN
        audit := @schema@.outbox_audit_change(text 'dlq.edit', actor, note,
            coalesce(detail, '{}') || jsonb_build_object('dlqId', dlq_id, 'correctedBy', emitted), ARRAY[letter.event_id, emitted], bigint '1');
        UPDATE @schema@.outbox_dlq AS d SET state = 'discarded', state_changed_at = now(), audit_id = audit, corrected_by = emitted
         WHERE d.event_id = letter.event_id AND d.state = 'open';
        UPDATE @schema@.outbox_events AS e SET passed_at = now()
         WHERE e.id = old.id AND e.ordering_key IS NOT NULL;
    END IF;
    RETURN QUERY SELECT emitted, verdict;
END
$$;
-- +goose StatementEnd

-- What an erasure would answer for an event now; seen as in outbox_change.
-- +goose StatementBegin
CREATE FUNCTION outbox_erase_outcome(event uuid, seen text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
SELECT coalesce((SELECT CASE WHEN e.erased_at IS NOT NULL THEN 'already_erased'
                             WHEN e.published_at IS NOT NULL OR e.dead_at IS NOT NULL THEN 'erased'
                             WHEN EXISTS (SELECT FROM @schema@.outbox_leases AS l WHERE l.seqs @> e.seq AND l.until > clock_timestamp()) THEN 'in_flight'
                             WHEN seen = 'discard' THEN 'erased'
                             ELSE 'waiting' END
                   FROM @schema@.outbox_events AS e WHERE e.id = event),
                -- Cleanup removed its row; what is left is in its dead letters.
                (SELECT CASE WHEN count(*) = 0 THEN 'not_found'
                             WHEN bool_and(d.erased_at IS NOT NULL) THEN 'already_erased'
                             ELSE 'erased' END
                   FROM @schema@.outbox_dlq AS d WHERE d.event_id = event))
$$;
-- +goose StatementEnd

-- Changes a set of dead letters or events, and says of each what became of it (see outbox_outcome for the words). Dead
-- letters are locked before events, each in the order of their ids. seen is what each row must still have (NULL: any), as
-- whoever asks saw it: the audit row of a dead letter, or the time an event was published at. What was changed since then
-- is left alone, so a set is changed once however often it is tried. For an erasure it is 'discard' or NULL, see there.
--   dlq.replay       queues the event behind each dead letter again: attempts 0, no error, due now. Every open dead letter
--                    of such an event is closed with it, named or not: an event on its way must not be listed as dead.
--   dlq.discard      marks dead letters as not worth replaying. Their events stay dead. One with an ordering key and no open
--                    letter left is passed by what waits behind it. It is locked first: of two discards that close its last
--                    letters the second sees both.
--   dlq.restore      takes a discard back. A dead letter whose event is alive or published is left alone: opening it would
--                    report a death that is over. So is one that was corrected: another event replaced its own. An event
--                    with an ordering key holds back again what has not been sent meanwhile.
--   event.republish  publishes published events once more. broker_message_id stays that of the message before, by which the
--                    publisher knows that it sends a copy.
--   event.retry      makes events that back off after a failure, or are scheduled, due now. What they lost of their attempts
--                    stays lost.
--   event.erase      removes what events carry: payload and headers, the copies of their dead letters, and the errors, which
--                    may quote them. The rows stay, with their ids. One that waits is removed only where seen is 'discard':
--                    it is never published, its dead letter is discarded, and what waits behind it in its ordering key goes
--                    on. Nothing takes this back.
-- +goose StatementBegin
CREATE FUNCTION outbox_change(action text, ids uuid[], actor text, note text DEFAULT NULL, detail jsonb DEFAULT NULL, seen text[] DEFAULT NULL)
    RETURNS TABLE (id uuid, event_id uuid, outcome text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    named    uuid[];
    about    uuid[];
    states   text[];
    outcomes text[];
    hit      uuid[];
    events   uuid[];
    waiting  uuid[];
    oldest   timestamptz;
    newest   timestamptz;
    audit    bigint;
BEGIN
    CASE action
    WHEN 'dlq.replay' THEN
        -- What the lock returns is each row's newest version, however long it waited.
        SELECT array_agg(l.id), array_agg(l.event_id), array_agg(l.state) INTO named, about, states
          FROM (SELECT d.id, d.event_id, d.state
                  FROM @schema@.outbox_dlq AS d
                 WHERE d.event_id = ANY (ARRAY(SELECT n.event_id FROM @schema@.outbox_dlq AS n WHERE n.id = ANY (ids)))
                   AND (d.state = 'open' OR d.id = ANY (ids))
                 ORDER BY d.id
                   FOR UPDATE) AS l;
        IF NOT 'open' = ALL (states) THEN
            -- Only then: it compares each with each.
            SELECT array_agg(l.event_id) INTO about
              FROM unnest(named, about, states) AS l(id, event_id, state) WHERE l.state = 'open' AND l.id = ANY (ids);
        END IF;
        -- dead_at goes together with the attempts: a row that kept them would die at its first failure.
        WITH up AS (
            UPDATE @schema@.outbox_events AS e
               SET dead_at = NULL, passed_at = NULL, attempt_count = 0, last_error = NULL, next_attempt_at = now(), deliver_at = now()
             WHERE e.id = ANY (about) AND e.dead_at IS NOT NULL AND e.published_at IS NULL AND e.erased_at IS NULL
            RETURNING e.id
        )
        SELECT array_agg(up.id) INTO events FROM up;
        IF events IS NOT NULL THEN
            PERFORM @schema@.outbox_forget_leases(events);
            audit := @schema@.outbox_audit_change(action, actor, note, detail, events, cardinality(events)::bigint);
            UPDATE @schema@.outbox_dlq AS d
               SET state = 'replayed', state_changed_at = now(), audit_id = audit
             WHERE d.event_id = ANY (events) AND d.state = 'open';
        END IF;
    WHEN 'dlq.discard', 'dlq.restore' THEN
        PERFORM FROM (SELECT d.id FROM @schema@.outbox_dlq AS d WHERE d.id = ANY (ids) ORDER BY d.id FOR UPDATE) AS locked;
        SELECT array_agg(DISTINCT d.id), array_agg(DISTINCT d.event_id) INTO hit, events
          FROM unnest(ids, seen::bigint[]) AS w(id, seen)
          JOIN @schema@.outbox_dlq AS d ON d.id = w.id
          LEFT JOIN @schema@.outbox_events AS e ON action = 'dlq.restore' AND e.id = d.event_id
         WHERE (w.seen IS NULL OR w.seen = d.audit_id)
           AND CASE action WHEN 'dlq.discard' THEN d.state = 'open'
                    ELSE d.state = 'discarded' AND d.corrected_by IS NULL AND d.erased_at IS NULL
                         AND (e.id IS NULL OR (e.dead_at IS NOT NULL AND e.published_at IS NULL)) END;
        IF hit IS NOT NULL THEN
            audit := @schema@.outbox_audit_change(action, actor, note, coalesce(detail, '{}') || jsonb_build_object('dlqIds', hit), events,
                                                  cardinality(hit)::bigint);
            UPDATE @schema@.outbox_dlq AS d
               SET state = CASE action WHEN 'dlq.discard' THEN 'discarded' ELSE 'open' END, state_changed_at = now(), audit_id = audit
             WHERE d.id = ANY (hit);
            PERFORM FROM (SELECT e.id FROM @schema@.outbox_events AS e
                           WHERE e.id = ANY (events) AND e.ordering_key IS NOT NULL ORDER BY e.id FOR UPDATE) AS locked;
            IF action = 'dlq.discard' THEN
                UPDATE @schema@.outbox_events AS e
                   SET passed_at = now()
                 WHERE e.id = ANY (events) AND e.ordering_key IS NOT NULL
                   AND e.dead_at IS NOT NULL AND e.published_at IS NULL AND e.passed_at IS NULL
                   AND NOT EXISTS (SELECT FROM @schema@.outbox_dlq AS d WHERE d.event_id = e.id AND d.state = 'open');
            ELSE
                UPDATE @schema@.outbox_events AS e SET passed_at = NULL WHERE e.id = ANY (events) AND e.passed_at IS NOT NULL;
            END IF;
        END IF;
    WHEN 'event.republish' THEN
        PERFORM FROM (SELECT e.id FROM @schema@.outbox_events AS e
                       WHERE e.id = ANY (ids) AND e.published_at IS NOT NULL
                       ORDER BY e.id
                         FOR UPDATE) AS locked;
        SELECT array_agg(DISTINCT e.id), min(e.published_at), max(e.published_at) INTO hit, oldest, newest
          FROM unnest(ids, seen::timestamptz[]) AS w(id, at)
          JOIN @schema@.outbox_events AS e ON e.id = w.id AND e.published_at = coalesce(w.at, e.published_at) AND e.erased_at IS NULL;
        IF hit IS NOT NULL THEN
            PERFORM @schema@.outbox_audit_change(action, actor, note,
                coalesce(detail, '{}') || jsonb_build_object('publishedFrom', oldest, 'publishedTo', newest), hit, cardinality(hit)::bigint);
            -- What was published before its table became an outbox has seq 0. A lease names an event by its seq.
            PERFORM set_config('outboxctl.numbers_history', 'on', true);
            UPDATE @schema@.outbox_events AS e SET seq = DEFAULT WHERE e.id = ANY (hit) AND e.seq = 0;
            PERFORM set_config('outboxctl.numbers_history', 'off', true);
            UPDATE @schema@.outbox_events AS e
               SET published_at = NULL, dead_at = NULL, passed_at = NULL, attempt_count = 0, last_error = NULL,
                   next_attempt_at = now(), deliver_at = now()
             WHERE e.id = ANY (hit);
            PERFORM @schema@.outbox_forget_leases(hit);
            -- Consumers that failed to handle it try it as often as before; the others remember it.
            UPDATE @schema@.outbox_consumer_failures AS f SET state = 'failing', attempts = 0 WHERE f.event_id = ANY (hit);
        END IF;
    WHEN 'event.retry' THEN
        PERFORM FROM (SELECT e.id FROM @schema@.outbox_events AS e
                       WHERE e.id = ANY (ids) AND e.published_at IS NULL
                       ORDER BY e.id
                         FOR UPDATE) AS locked;
        WITH up AS (
            UPDATE @schema@.outbox_events AS e SET next_attempt_at = now(), deliver_at = CASE WHEN e.deliver_at > now() THEN now() ELSE e.deliver_at END
             WHERE e.id = ANY (ids) AND e.published_at IS NULL AND e.dead_at IS NULL AND e.next_attempt_at > clock_timestamp()
               AND NOT EXISTS (SELECT FROM @schema@.outbox_leases AS l WHERE l.seqs @> e.seq AND l.until > clock_timestamp())
            RETURNING e.id
        )
        SELECT array_agg(up.id) INTO hit FROM up;
        IF hit IS NOT NULL THEN
            PERFORM @schema@.outbox_audit_change(action, actor, note, detail, hit, cardinality(hit)::bigint);
        END IF;
    WHEN 'event.erase' THEN
        -- A claim that held an event has leased it when the lock is ours.
        PERFORM FROM (SELECT d.id FROM @schema@.outbox_dlq AS d WHERE d.event_id = ANY (ids) ORDER BY d.id FOR UPDATE) AS locked;
        PERFORM FROM (SELECT e.id FROM @schema@.outbox_events AS e WHERE e.id = ANY (ids) ORDER BY e.id FOR UPDATE) AS locked;
        SELECT array_agg(j.id ORDER BY j.ord), array_agg(j.outcome ORDER BY j.ord), array_agg(j.id) FILTER (WHERE j.outcome = 'erased')
          INTO named, outcomes, hit
          FROM (SELECT w.id, w.ord, @schema@.outbox_erase_outcome(w.id, w.seen) AS outcome
                  FROM unnest(ids, seen) WITH ORDINALITY AS w(id, seen, ord)) AS j;
        IF hit IS NOT NULL THEN
            SELECT array_agg(e.id) INTO waiting
              FROM @schema@.outbox_events AS e WHERE e.id = ANY (hit) AND e.published_at IS NULL AND e.dead_at IS NULL;
            audit := @schema@.outbox_audit_change(action, actor, note,
                coalesce(detail, '{}') || jsonb_build_object('discarded', coalesce(cardinality(waiting), 0)), hit, cardinality(hit)::bigint);
            PERFORM set_config('outboxctl.erases', 'on', true);
            IF waiting IS NOT NULL THEN
                PERFORM @schema@.outbox_forget_leases(waiting);
                INSERT INTO @schema@.outbox_dlq AS d (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message,
                    attempt_count, namespace, tenant_id, event_created_at, state, state_changed_at, audit_id, erased_at)
                SELECT e.id, e.event_type, e.aggregate_type, e.aggregate_id, 'null', 'erased', 'erased before it was published',
                       e.attempt_count, e.namespace, e.tenant_id, e.created_at, 'discarded', now(), audit, now()
                  FROM @schema@.outbox_events AS e WHERE e.id = ANY (waiting);
            END IF;
            UPDATE @schema@.outbox_dlq AS d
               SET payload_json = 'null', headers = NULL, error_message = 'erased', erased_at = now()
             WHERE d.event_id = ANY (hit) AND d.erased_at IS NULL;
            UPDATE @schema@.outbox_events AS e
               SET payload_json = 'null', headers = NULL, last_error = CASE WHEN e.last_error IS NOT NULL THEN 'erased' END, erased_at = now(),
                   passed_at = CASE WHEN e.id = ANY (waiting) AND e.ordering_key IS NOT NULL THEN now() ELSE e.passed_at END,
                   dead_at = CASE WHEN e.id = ANY (waiting) THEN now() ELSE e.dead_at END
             WHERE e.id = ANY (hit);
            PERFORM set_config('outboxctl.erases', 'off', true);
            UPDATE @schema@.outbox_consumer_failures AS f SET last_error = 'erased' WHERE f.event_id = ANY (hit);
        END IF;
        RETURN QUERY SELECT r.id, r.id, r.outcome FROM unnest(named, outcomes) AS r(id, outcome);
        RETURN;
    ELSE
        RAISE EXCEPTION USING ERRCODE = 'OX300', COLUMN = 'action', MESSAGE = format('action: %s is none that changes a set', coalesce(action, 'NULL'));
    END CASE;

    IF starts_with(action, 'event.') THEN
        RETURN QUERY
            SELECT w.id, w.id,
                   CASE WHEN e.id = ANY (hit) THEN @schema@.outbox_success(action)
                        ELSE @schema@.outbox_outcome(action, NULL::text, e.id IS NOT NULL, e.published_at IS NOT NULL, e.dead_at IS NOT NULL, false,
                                                     action = 'event.retry', e.erased_at IS NOT NULL)
                   END
              FROM unnest(ids) WITH ORDINALITY AS w(id, ord)
              LEFT JOIN @schema@.outbox_events AS e ON e.id = w.id
             ORDER BY w.ord;
        RETURN;
    END IF;
    RETURN QUERY
        SELECT w.id, d.event_id,
               CASE WHEN d.audit_id = audit THEN @schema@.outbox_success(action)
                    ELSE @schema@.outbox_outcome(action, d.state, e.id IS NOT NULL, e.published_at IS NOT NULL, e.dead_at IS NOT NULL,
                                                 d.corrected_by IS NOT NULL, w.seen IS NULL OR w.seen IS NOT DISTINCT FROM d.audit_id, d.erased_at IS NOT NULL)
               END
          FROM unnest(ids, CASE WHEN action <> 'dlq.replay' THEN seen::bigint[] END) WITH ORDINALITY AS w(id, seen, ord)
          LEFT JOIN @schema@.outbox_dlq AS d ON d.id = w.id
          LEFT JOIN @schema@.outbox_events AS e ON e.id = CASE WHEN d.audit_id IS DISTINCT FROM audit THEN d.event_id END
         ORDER BY w.ord;
END
$$;
-- +goose StatementEnd

-- ANALYZE keeps samples of what a column holds. It is done once more after an erasure, so that it keeps none of what was
-- erased; false: another session, such as a vacuum, is in the way.
-- +goose StatementBegin
CREATE FUNCTION outbox_forget_samples() RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '5s'
    AS $$
BEGIN
    ANALYZE @schema@.outbox_events (payload_json, headers, last_error);
    ANALYZE @schema@.outbox_dlq (payload_json, headers, error_message);
    ANALYZE @schema@.outbox_consumer_failures (last_error);
    RETURN true;
EXCEPTION
    WHEN lock_not_available THEN
        RETURN false;
END
$$;
-- +goose StatementEnd

-- What an event carries, of a dead letter or else of an event, and the audit row that says who saw it and why. Of what was erased there is neither. The page
-- reads as a viewer, who may not see it; this is the one way for it, and there is no one without the other.
-- +goose StatementBegin
CREATE FUNCTION outbox_reveal(id uuid, actor text, note text, detail jsonb, OUT event_id uuid, OUT payload text, OUT headers text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
BEGIN
    IF coalesce(btrim(actor), '') = '' OR coalesce(btrim(note), '') = '' THEN
        RAISE EXCEPTION 'actor, note: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'note';
    END IF;
    SELECT d.event_id, d.payload_json::text, d.headers::text INTO event_id, payload, headers
      FROM @schema@.outbox_dlq AS d WHERE d.id = outbox_reveal.id;
    IF NOT FOUND THEN
        SELECT e.id, e.payload_json::text, e.headers::text INTO event_id, payload, headers
          FROM @schema@.outbox_events AS e WHERE e.id = outbox_reveal.id;
    END IF;
    IF event_id IS NULL OR payload = 'null' AND @schema@.outbox_erase_outcome(event_id, NULL) = 'already_erased' THEN
        payload := NULL;
        RETURN;
    END IF;
    INSERT INTO @schema@.outbox_audit AS a (actor, action, note, detail, affected)
    VALUES (outbox_reveal.actor, 'payload.reveal', outbox_reveal.note,
            coalesce(outbox_reveal.detail, '{}') || jsonb_build_object('eventIds', jsonb_build_array(event_id)), 1);
END
$$;
-- +goose StatementEnd

-- Retention. The functions are the only way an operator deletes: they cannot
-- touch what is not published (or, for dead letters, not handled), whatever
-- they are told. One call is one short batch. A run has one audit row, which the
-- first batch that deletes writes and every later one adds to, each in the
-- transaction that deletes: a run that is killed has recorded what it did.

-- Adds to a run's audit row what one batch deleted of one kind, and the events
-- that went with it; NULL begins a row. Returns its id. A run adds to its own
-- row only.
-- +goose StatementBegin
CREATE FUNCTION outbox_audit_cleanup(
    run bigint, actor text, note text, detail jsonb, kind text, older_than timestamptz, deleted bigint, events bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    part jsonb;
BEGIN
    IF run IS NULL THEN
        INSERT INTO @schema@.outbox_audit AS a (actor, action, note, detail, affected)
        VALUES (actor, 'cleanup', nullif(btrim(note), ''), coalesce(detail, '{}'), 0)
        RETURNING a.id INTO run;
    END IF;
    SELECT coalesce(a.detail -> kind, '{}') INTO part
      FROM @schema@.outbox_audit AS a
     WHERE a.id = run AND a.action = 'cleanup' AND a.actor = outbox_audit_cleanup.actor AND a.db_user = session_user
       FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'run: % is no cleanup of %', run, actor USING ERRCODE = 'OX300', COLUMN = 'run';
    END IF;
    part := part || jsonb_build_object('olderThan', older_than, 'deleted', coalesce((part ->> 'deleted')::bigint, 0) + deleted);
    IF events IS NOT NULL THEN
        part := part || jsonb_build_object('events', coalesce((part ->> 'events')::bigint, 0) + events);
    END IF;
    UPDATE @schema@.outbox_audit AS a
       SET affected = a.affected + deleted, detail = a.detail || jsonb_build_object(kind, part)
     WHERE a.id = run;
    RETURN run;
END
$$;
-- +goose StatementEnd

-- Deletes one batch of what is older, and says how much and up to when: from_at lets the next batch start there instead of
-- walking the index entries that this one left behind. busy: another cleanup is at work. What is younger than now is still
-- in use.
--   events    published ones
--   inbox     what consumers remember. The caller sees to it that the rows are older than anything that may still be delivered again.
--   failures  what consumers failed on, of events that are not here any more
--   dlq       handled dead letters. A discarded one takes its dead event along, unless another death of the same event is still open.
--   audit     what operators did. Who is audited must not be able to wipe out yesterday, so there is a least age.
--   history   minutes after a day and hours after 30 days, whatever older_than is. These are figures and nobody's data: no audit row.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup(
    kind text, older_than timestamptz, from_at timestamptz, max_rows int, actor text, note text, detail jsonb,
    INOUT run bigint, OUT deleted bigint, OUT deleted_events bigint, OUT last_at timestamptz, OUT busy boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    discarded uuid[];
BEGIN
    IF coalesce(btrim(actor), '') = '' THEN
        RAISE EXCEPTION 'actor: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'actor';
    END IF;
    IF kind <> 'history' AND (older_than IS NULL OR older_than > now()) THEN
        RAISE EXCEPTION 'older_than: must be a time that is over' USING ERRCODE = 'OX300', COLUMN = 'older_than';
    END IF;
    from_at := coalesce(from_at, '-infinity');
    deleted := 0;
    busy := NOT pg_try_advisory_xact_lock(hashtextextended('outbox_cleanup', 0));
    IF busy THEN
        RETURN;
    END IF;
    CASE kind
    WHEN 'events' THEN
        WITH gone AS MATERIALIZED (
            SELECT e.id
              FROM @schema@.outbox_events AS e
             WHERE e.published_at IS NOT NULL AND e.published_at < older_than AND e.published_at >= from_at
             ORDER BY e.published_at
             LIMIT max_rows
               FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM @schema@.outbox_events AS e USING gone
             WHERE e.id = gone.id AND e.published_at IS NOT NULL
            RETURNING e.published_at
        )
        SELECT count(*), max(removed.published_at) INTO deleted, last_at FROM removed;
    WHEN 'inbox' THEN
        WITH gone AS MATERIALIZED (
            SELECT i.consumer, i.event_id
              FROM @schema@.inbox_events AS i
             WHERE i.processed_at < older_than AND i.processed_at >= from_at
             ORDER BY i.processed_at
             LIMIT max_rows
               FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM @schema@.inbox_events AS i USING gone
             WHERE i.consumer = gone.consumer AND i.event_id = gone.event_id
            RETURNING i.processed_at
        )
        SELECT count(*), max(removed.processed_at) INTO deleted, last_at FROM removed;
    WHEN 'failures' THEN
        WITH gone AS MATERIALIZED (
            SELECT f.consumer, f.event_id
              FROM @schema@.outbox_consumer_failures AS f
             WHERE f.last_at < older_than AND f.last_at >= from_at
               AND NOT EXISTS (SELECT FROM @schema@.outbox_events AS e WHERE e.id = f.event_id)
             ORDER BY f.last_at
             LIMIT max_rows
               FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM @schema@.outbox_consumer_failures AS f USING gone
             WHERE f.consumer = gone.consumer AND f.event_id = gone.event_id
            RETURNING f.last_at
        )
        SELECT count(*), max(removed.last_at) INTO deleted, last_at FROM removed;
    WHEN 'dlq' THEN
        WITH gone AS MATERIALIZED (
            SELECT d.id
              FROM @schema@.outbox_dlq AS d
             WHERE d.state IN ('replayed', 'discarded') AND d.state_changed_at < older_than
             LIMIT max_rows
               FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM @schema@.outbox_dlq AS d USING gone
             WHERE d.id = gone.id AND d.state <> 'open'
            RETURNING d.event_id, d.state
        )
        SELECT count(*), array_agg(removed.event_id) FILTER (WHERE removed.state = 'discarded')
          INTO deleted, discarded FROM removed;
        DELETE FROM @schema@.outbox_events AS e
         WHERE e.id = ANY (discarded) AND e.dead_at IS NOT NULL AND e.published_at IS NULL
           AND (e.ordering_key IS NULL OR e.passed_at IS NOT NULL)
           AND NOT EXISTS (SELECT FROM @schema@.outbox_dlq AS d WHERE d.event_id = e.id AND d.state = 'open');
        GET DIAGNOSTICS deleted_events = ROW_COUNT;
        last_at := nullif(from_at, '-infinity');
    WHEN 'audit' THEN
        IF older_than > now() - interval '7 days' THEN
            RAISE EXCEPTION 'older_than: audit rows are kept for at least 7 days' USING ERRCODE = 'OX300', COLUMN = 'older_than';
        END IF;
        PERFORM set_config('outboxctl.audit_cleanup', 'on', true);
        WITH gone AS MATERIALIZED (
            SELECT a.id
              FROM @schema@.outbox_audit AS a
             WHERE a.at < older_than AND a.at >= from_at
             ORDER BY a.at
             LIMIT max_rows
               FOR UPDATE SKIP LOCKED
        ), removed AS (
            DELETE FROM @schema@.outbox_audit AS a USING gone
             WHERE a.id = gone.id
            RETURNING a.at
        )
        SELECT count(*), max(removed.at) INTO deleted, last_at FROM removed;
        PERFORM set_config('outboxctl.audit_cleanup', 'off', true);
    WHEN 'history' THEN
        WITH removed AS (
            DELETE FROM @schema@.outbox_history AS h
             WHERE h.ctid = ANY (ARRAY(
                   SELECT o.ctid FROM @schema@.outbox_history AS o WHERE o.at < now() - interval '30 days' LIMIT max_rows))
            RETURNING 1
        ), narrowed AS (
            UPDATE @schema@.outbox_history AS h SET minutes = NULL
             WHERE h.ctid = ANY (ARRAY(
                   SELECT m.ctid FROM @schema@.outbox_history AS m
                    WHERE m.at < now() - interval '26 hours' AND m.at >= now() - interval '30 days' AND m.minutes IS NOT NULL LIMIT max_rows))
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM removed) + (SELECT count(*) FROM narrowed) INTO deleted;
        RETURN;
    ELSE
        RAISE EXCEPTION USING ERRCODE = 'OX300', COLUMN = 'kind', MESSAGE = format('kind: %s is none', coalesce(kind, 'NULL'));
    END CASE;
    IF deleted > 0 THEN
        run := @schema@.outbox_audit_cleanup(run, actor, note, detail, kind, older_than, deleted, deleted_events);
    END IF;
END
$$;
-- +goose StatementEnd

-- How much work publishers have, for whoever starts more of them. Counting what is not published would count what is
-- dead, parked, paused or scheduled too, for which no publisher can do anything.
--
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

REVOKE ALL ON FUNCTION outbox_audit_change, outbox_forget_leases, outbox_change, outbox_correct, outbox_forget_samples, outbox_reveal,
    outbox_audit_cleanup, outbox_cleanup, outbox_claimable FROM PUBLIC;

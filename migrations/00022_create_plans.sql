-- A change is a plan before it is made: a plan holds the set, in chunks of a
-- thousand ids with a digest of what each carries. Running it does the chunks,
-- each in one transaction with its audit row and the mark that it is done. So an
-- operator on any machine sees the same run; a killed one is resumed where it
-- was; and no row is changed twice. The tables are written by the functions
-- below alone. Refusals:
--   OX300 malformed argument      OX310 the plan is in another state
--   OX311 no such plan            OX312 another runner has the lease

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

CREATE TABLE outbox_plans (
    id          uuid        PRIMARY KEY DEFAULT outbox_uuid_v7(),
    action      text        NOT NULL
        CONSTRAINT outbox_plans_action_check
        CHECK (action IN ('dlq.replay', 'dlq.discard', 'dlq.restore', 'event.republish', 'event.retry', 'event.erase')),
    state       text        NOT NULL DEFAULT 'making'
        CONSTRAINT outbox_plans_state_check
        CHECK (state IN ('making', 'ready', 'abandoned', 'running', 'stopped', 'interrupted', 'done')),
    author      text        NOT NULL,
    db_user     text        NOT NULL DEFAULT session_user,
    note        text,
    filter      jsonb,
    -- The run of the audit trail that the plan takes back.
    undoes      text,
    database    jsonb       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    ready_at    timestamptz,
    total       bigint      NOT NULL DEFAULT 0,
    left_out    jsonb       NOT NULL DEFAULT '{}',
    summary     jsonb       NOT NULL DEFAULT '{}',
    -- The run. Who has the lease makes or runs the plan; a lease that ended belongs to a process that is gone.
    lease       uuid,
    lease_until timestamptz,
    runner      text,
    options     jsonb,
    started_at  timestamptz,
    ended_at    timestamptz,
    stop_by     text,
    ended_why   text,
    watched     jsonb
) WITH (fillfactor = 70);

-- What is added and done is counted here and not in the plan, so that several chunks are worked on at a time.
CREATE TABLE outbox_plan_chunks (
    plan_id   uuid    NOT NULL REFERENCES outbox_plans ON DELETE CASCADE,
    chunk     integer NOT NULL,
    size      integer NOT NULL,
    -- How many rows there are of each kind, and how many were left out by outcome, until the plan has them.
    summary   jsonb,
    left_out  jsonb,
    ids       uuid[]  NOT NULL,
    event_ids uuid[]  NOT NULL,
    -- What each row must still have: the time an event was published at, or the number of a dead letter's audit row. Of an
    -- event that is to be erased, discard: also when it waits.
    seen      text[]  NOT NULL,
    -- Of what each carries; NULL in a plan that was made to be run at once.
    digests   bigint[],
    done      integer NOT NULL DEFAULT 0,
    -- What became of the rows, by outcome, and of those that were not changed, by id.
    counts    jsonb   NOT NULL DEFAULT '{}',
    outcomes  jsonb   NOT NULL DEFAULT '{}',
    PRIMARY KEY (plan_id, chunk)
) WITH (fillfactor = 70);

-- Begins a plan. Plans that were not started within a week, and their like of three
-- months ago, go: the audit keeps what was changed.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_create(action text, author text, note text, filter jsonb, undoes text, database jsonb, OUT plan uuid, OUT lease uuid)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
BEGIN
    IF coalesce(btrim(author), '') = '' THEN
        RAISE EXCEPTION 'author: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'author';
    END IF;
    IF action NOT IN ('dlq.replay', 'dlq.discard', 'dlq.restore', 'event.republish', 'event.retry', 'event.erase') THEN
        RAISE EXCEPTION USING ERRCODE = 'OX300', COLUMN = 'action', MESSAGE = format('action: %s is none that can be planned', action);
    END IF;
    DELETE FROM @schema@.outbox_plans AS p
     WHERE (p.started_at IS NULL AND p.created_at < now() - interval '8 days')
        OR (p.state <> 'running' AND p.created_at < now() - interval '90 days');
    lease := gen_random_uuid();
    INSERT INTO @schema@.outbox_plans AS p (action, author, note, filter, undoes, database, lease, lease_until)
    VALUES (action, author, nullif(btrim(note), ''), filter, nullif(undoes, ''), database, lease, now() + interval '30 seconds')
    RETURNING p.id INTO plan;
END
$$;
-- +goose StatementEnd

-- Adds a chunk to a plan that is being made, and returns the rows that the action could not be done to: they are left out.
-- What the rows are is counted here, and not taken from the caller: an operator who confirms a plan that another one made
-- decides by these figures.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_add(plan uuid, lease uuid, number int, ids uuid[], seen text[], digest boolean)
    RETURNS TABLE (id uuid, event_id uuid, outcome text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    p           @schema@.outbox_plans;
    on_events   boolean;
    success     text;
    kept        uuid[];
    events      uuid[];
    sights      text[];
    hashes      bigint[];
    bad         uuid[];
    bad_events  uuid[];
    bad_results text[];
    kinds       jsonb;
BEGIN
    IF coalesce(cardinality(ids), 0) NOT BETWEEN 1 AND 1000 OR cardinality(ids) <> cardinality(seen) THEN
        RAISE EXCEPTION 'ids: 1 to 1000 of them, and as much of everything else' USING ERRCODE = 'OX300', COLUMN = 'ids';
    END IF;
    SELECT * INTO p FROM @schema@.outbox_plans AS o WHERE o.id = plan AND o.state = 'making' AND o.lease = outbox_plan_add.lease;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: is not being made by you', plan);
    END IF;
    on_events := p.action IN ('event.republish', 'event.retry', 'event.erase');
    success := @schema@.outbox_success(p.action);

    -- In two steps: an outcome of plain columns needs no call for each row.
    WITH found AS MATERIALIZED (
        SELECT w.id, coalesce(d.event_id, e.id, CASE p.action WHEN 'event.erase' THEN w.id END) AS event_id, w.seen, d.state, e.id IS NOT NULL AS found, e.published_at IS NOT NULL AS published,
               e.dead_at IS NOT NULL AS dead, d.corrected_by IS NOT NULL AS corrected,
               CASE p.action WHEN 'event.republish' THEN e.published_at = coalesce(w.seen::timestamptz, e.published_at)
                             WHEN 'event.retry' THEN e.next_attempt_at <= now() OR EXISTS (
                                  SELECT FROM @schema@.outbox_leases AS l WHERE l.seqs @> e.seq AND l.until > now())
                             ELSE w.seen IS NULL OR w.seen = d.audit_id::text END AS unchanged,
               CASE WHEN outbox_plan_add.digest AND p.action <> 'event.erase' THEN jsonb_hash_extended(coalesce(e.payload_json, d.payload_json), 0) END AS digest,
               coalesce(d.erased_at, e.erased_at) IS NOT NULL AS erased,
               d.error_reason::text AS reason, coalesce(d.event_type::text, e.event_type::text) AS type, d.topic,
               coalesce(d.tenant_id, e.tenant_id)::text AS tenant
          FROM unnest(ids, seen) AS w(id, seen)
          LEFT JOIN @schema@.outbox_dlq AS d ON NOT on_events AND d.id = w.id
          LEFT JOIN @schema@.outbox_events AS e ON e.id = CASE WHEN on_events THEN w.id ELSE d.event_id END),
    judged AS MATERIALIZED (
        SELECT f.id, f.event_id, f.seen, f.digest, f.reason, f.type, f.topic, f.tenant,
               CASE p.action WHEN 'event.erase' THEN @schema@.outbox_erase_outcome(f.id, f.seen)
                             ELSE @schema@.outbox_outcome(p.action, f.state, f.found, f.published, f.dead, f.corrected, f.unchanged, f.erased)
               END AS outcome
          FROM found AS f),
    counted AS (
        SELECT k.kind, k.name, sum(g.n) AS n
          FROM (SELECT j.reason, j.type, j.topic, j.tenant, count(*) AS n FROM judged AS j WHERE j.outcome = success GROUP BY 1, 2, 3, 4) AS g,
               LATERAL (VALUES ('reasons', g.reason), ('types', g.type), ('topics', g.topic), ('tenants', g.tenant)) AS k (kind, name)
         WHERE k.name <> ''
         GROUP BY 1, 2)
    SELECT array_agg(j.id) FILTER (WHERE j.outcome = success), array_agg(j.event_id) FILTER (WHERE j.outcome = success),
           array_agg(j.seen) FILTER (WHERE j.outcome = success), array_agg(j.digest) FILTER (WHERE j.outcome = success),
           array_agg(j.id) FILTER (WHERE j.outcome <> success), array_agg(j.event_id) FILTER (WHERE j.outcome <> success),
           array_agg(j.outcome) FILTER (WHERE j.outcome <> success),
           (SELECT coalesce(jsonb_object_agg(k.kind, k.counts), '{}')
              FROM (SELECT c.kind, jsonb_object_agg(c.name, c.n) AS counts FROM counted AS c GROUP BY 1) AS k)
      INTO kept, events, sights, hashes, bad, bad_events, bad_results, kinds
      FROM judged AS j;

    INSERT INTO @schema@.outbox_plan_chunks AS c (plan_id, chunk, size, summary, left_out, ids, event_ids, seen, digests)
    VALUES (plan, number, coalesce(cardinality(kept), 0), kinds, @schema@.outbox_add_counts(jsonb '{}', bad_results),
            coalesce(kept, '{}'), coalesce(events, '{}'), coalesce(sights, '{}'), CASE WHEN outbox_plan_add.digest AND p.action <> 'event.erase' THEN coalesce(hashes, '{}') END);
    -- Not each time: those who add at the same time would wait for each other.
    UPDATE @schema@.outbox_plans AS o SET lease_until = now() + interval '30 seconds'
     WHERE o.id = plan AND o.lease_until < now() + interval '20 seconds';
    RETURN QUERY SELECT b.id, b.event_id, b.outcome FROM unnest(bad, bad_events, bad_results) AS b(id, event_id, outcome);
END
$$;
-- +goose StatementEnd

-- Counts outcomes, onto those that were counted before.
-- +goose StatementBegin
CREATE FUNCTION outbox_add_counts(counts jsonb, outcomes text[]) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
SELECT coalesce(jsonb_object_agg(s.outcome, s.n), '{}')
  FROM (SELECT k.outcome, sum(k.n) AS n
          FROM (SELECT b.key AS outcome, b.value::bigint AS n FROM jsonb_each_text(counts) AS b
                UNION ALL
                SELECT r.outcome, count(*) FROM unnest(outcomes) AS r(outcome) GROUP BY 1) AS k
         GROUP BY 1) AS s
$$;
-- +goose StatementEnd

-- What the chunks of a plan left out.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_left_out(plan uuid) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
SELECT coalesce(jsonb_object_agg(l.outcome, l.n), '{}')
  FROM (SELECT k.key AS outcome, sum(k.value::bigint) AS n
          FROM @schema@.outbox_plan_chunks AS c, jsonb_each_text(c.left_out) AS k
         WHERE c.plan_id = plan GROUP BY 1) AS l
$$;
-- +goose StatementEnd

-- Ends the making: the set is whole, and what its chunks counted is the plan's. Each kind tells its hundred largest apart;
-- others counts the rest. effects is what the change does to waiting events beside the set.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_ready(plan uuid, lease uuid, effects jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE @schema@.outbox_plans AS p
       SET state = 'ready', ready_at = now(), lease = NULL, lease_until = NULL,
           total = (SELECT coalesce(sum(c.size), 0) FROM @schema@.outbox_plan_chunks AS c WHERE c.plan_id = plan),
           left_out = @schema@.outbox_plan_left_out(plan),
           summary = (SELECT coalesce(jsonb_object_agg(k.kind, k.counts), '{}')
                        FROM (SELECT m.kind, jsonb_object_agg(m.name, m.n) AS counts
                                FROM (SELECT r.kind, CASE WHEN r.rank > 100 THEN 'others' ELSE r.name END AS name, sum(r.n) AS n
                                        FROM (SELECT k.key AS kind, v.key AS name, sum(v.value::bigint) AS n,
                                                     row_number() OVER (PARTITION BY k.key ORDER BY sum(v.value::bigint) DESC, v.key) AS rank
                                                FROM @schema@.outbox_plan_chunks AS c, jsonb_each(c.summary) AS k, jsonb_each_text(k.value) AS v
                                               WHERE c.plan_id = plan GROUP BY 1, 2) AS r
                                       GROUP BY 1, 2) AS m
                               GROUP BY 1) AS k)
                     || jsonb_strip_nulls(jsonb_build_object('releases', effects -> 'releases', 'behind', effects -> 'behind'))
     WHERE p.id = plan AND p.state = 'making' AND p.lease = outbox_plan_ready.lease;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: is not being made by you', plan);
    END IF;
    UPDATE @schema@.outbox_plan_chunks AS c SET summary = NULL, left_out = NULL WHERE c.plan_id = plan AND c.summary <> '{}';
END
$$;
-- +goose StatementEnd

-- Gives up a plan that was not started, and says why or who did. Its set goes, the row stays.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_abandon(plan uuid, actor text, why text) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF coalesce(btrim(actor), '') = '' THEN
        RAISE EXCEPTION 'actor: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'actor';
    END IF;
    UPDATE @schema@.outbox_plans AS p
       SET state = 'abandoned', ended_at = now(), left_out = CASE p.state WHEN 'making' THEN @schema@.outbox_plan_left_out(plan) ELSE p.left_out END, ended_why = coalesce(nullif(btrim(why), ''), 'abandoned by ' || actor), lease = NULL, lease_until = NULL
     WHERE p.id = plan AND p.state IN ('making', 'ready');
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OX310', MESSAGE = format('plan %s: only one that was not started can be abandoned', plan);
    END IF;
    DELETE FROM @schema@.outbox_plan_chunks AS c WHERE c.plan_id = plan;
END
$$;
-- +goose StatementEnd

-- Takes the lease of a run: of a plan that is ready, or of a run that ended or whose runner is gone before all was done.
-- The note counts where the plan has none.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_begin(plan uuid, runner text, note text, options jsonb) RETURNS uuid
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    p     @schema@.outbox_plans;
    token uuid := gen_random_uuid();
BEGIN
    IF coalesce(btrim(runner), '') = '' THEN
        RAISE EXCEPTION 'runner: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'runner';
    END IF;
    SELECT * INTO p FROM @schema@.outbox_plans AS o WHERE o.id = plan FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OX311', MESSAGE = format('no plan %s', plan);
    ELSIF p.state = 'running' AND p.lease_until > now() THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: %s is running it', plan, p.runner);
    ELSIF p.state NOT IN ('ready', 'running', 'stopped', 'interrupted') THEN
        RAISE EXCEPTION USING ERRCODE = 'OX310', MESSAGE = format('plan %s: is %s', plan, p.state);
    ELSIF p.started_at IS NULL AND p.created_at < now() - interval '7 days' THEN
        RAISE EXCEPTION USING ERRCODE = 'OX310', MESSAGE = format('plan %s: has expired, what it was made for may have changed', plan);
    END IF;
    UPDATE @schema@.outbox_plans AS o
       SET state = 'running', lease = token, lease_until = now() + interval '30 seconds', runner = outbox_plan_begin.runner,
           note = coalesce(o.note, nullif(btrim(outbox_plan_begin.note), '')), options = outbox_plan_begin.options, started_at = coalesce(o.started_at, now()), ended_at = NULL, ended_why = NULL, stop_by = NULL
     WHERE o.id = plan;
    RETURN token;
END
$$;
-- +goose StatementEnd

-- Does the next rows of a run, at most max_rows and not beyond the end of a chunk: what carries something else than when
-- it was planned is left alone, the rest is changed, and all of it is marked as done. No rows: the run is at its end, or
-- was asked to stop. Several may be under way: each holds a chunk. Sets are not joined here: of two arrays of a thousand
-- the planner knows nothing, and compares each with each.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_step(plan uuid, lease uuid, max_rows int, actor text, detail jsonb)
    RETURNS TABLE (id uuid, event_id uuid, outcome text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    p         @schema@.outbox_plans;
    c         @schema@.outbox_plan_chunks;
    on_events boolean;
    success   text;
    start     int;
    stop      int;
    about     jsonb;
    todo      uuid[];
    sights    text[];
    other     uuid[];
    others    uuid[];
    keys      uuid[];
    events    uuid[];
    results   text[];
BEGIN
    SELECT * INTO p FROM @schema@.outbox_plans AS o WHERE o.id = plan AND o.state = 'running' AND o.lease = outbox_plan_step.lease;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: another runner has taken it over', plan);
    END IF;
    IF p.stop_by IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT * INTO c FROM @schema@.outbox_plan_chunks AS o
     WHERE o.plan_id = plan AND o.done < o.size ORDER BY o.chunk LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- What is left is being done, which may fail.
        SELECT * INTO c FROM @schema@.outbox_plan_chunks AS o
         WHERE o.plan_id = plan AND o.done < o.size ORDER BY o.chunk LIMIT 1 FOR UPDATE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    on_events := p.action IN ('event.republish', 'event.retry', 'event.erase');
    success := @schema@.outbox_success(p.action);
    start := c.done + 1;
    stop := least(c.size, c.done + greatest(max_rows, 1));

    todo := c.ids[start:stop];
    sights := c.seen[start:stop];
    IF c.digests IS NOT NULL THEN
        SELECT array_agg(w.id) FILTER (WHERE w.same), array_agg(w.seen) FILTER (WHERE w.same),
               array_agg(w.id) FILTER (WHERE NOT w.same), array_agg(w.event_id) FILTER (WHERE NOT w.same)
          INTO todo, sights, other, others
          FROM (SELECT u.id, u.event_id, u.seen,
                       coalesce(jsonb_hash_extended(coalesce(e.payload_json, d.payload_json), 0) = u.digest, true) AS same
                  FROM unnest(c.ids[start:stop], c.event_ids[start:stop], c.seen[start:stop], c.digests[start:stop])
                       AS u(id, event_id, seen, digest)
                  LEFT JOIN @schema@.outbox_dlq AS d ON NOT on_events AND d.id = u.id
                  LEFT JOIN @schema@.outbox_events AS e ON e.id = CASE WHEN on_events THEN u.id ELSE d.event_id END) AS w;
    END IF;

    about := coalesce(detail, '{}') || jsonb_build_object('runId', plan, 'planId', plan, 'author', p.author, 'chunk', c.chunk)
             || jsonb_strip_nulls(jsonb_build_object('filter', p.filter, 'undoes', p.undoes));
    IF todo IS NOT NULL THEN
        CASE p.action
        WHEN 'dlq.replay' THEN
            SELECT array_agg(r.dlq_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_replay(todo, actor, p.note, about) AS r;
        WHEN 'dlq.discard' THEN
            SELECT array_agg(r.dlq_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_discard(todo, actor, p.note, about, sights::bigint[]) AS r;
        WHEN 'dlq.restore' THEN
            SELECT array_agg(r.dlq_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_restore(todo, actor, p.note, about, sights::bigint[]) AS r;
        WHEN 'event.republish' THEN
            SELECT array_agg(r.event_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_republish(todo, sights::timestamptz[], actor, p.note, about) AS r;
        WHEN 'event.erase' THEN
            SELECT array_agg(r.event_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_erase(todo, sights, actor, p.note, about) AS r;
        ELSE
            SELECT array_agg(r.event_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_retry(todo, actor, p.note, about) AS r;
        END CASE;
    END IF;
    IF other IS NOT NULL THEN
        keys := keys || other;
        events := events || others;
        results := results || array_fill(text 'changed', ARRAY[cardinality(other)]);
    END IF;

    UPDATE @schema@.outbox_plan_chunks AS o
       SET done = stop, counts = @schema@.outbox_add_counts(o.counts, results),
           outcomes = o.outcomes || coalesce((SELECT jsonb_object_agg(r.id, r.outcome) FROM unnest(keys, results) AS r(id, outcome)
                                               WHERE r.outcome <> success), '{}')
     WHERE o.plan_id = plan AND o.chunk = c.chunk;
    RETURN QUERY SELECT r.id, r.event_id, r.outcome FROM unnest(keys, events, results) AS r(id, event_id, outcome);
END
$$;
-- +goose StatementEnd

-- Keeps the lease while a run waits, with what became of its events so far if that is given, and tells whether an operator asked it to stop.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_beat(plan uuid, lease uuid, watched jsonb) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    stop boolean;
BEGIN
    UPDATE @schema@.outbox_plans AS p
       SET lease_until = now() + interval '30 seconds', watched = coalesce(outbox_plan_beat.watched, p.watched)
     WHERE p.id = plan AND p.state = 'running' AND p.lease = outbox_plan_beat.lease
    RETURNING p.stop_by IS NOT NULL INTO stop;
    IF stop IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: another runner has taken it over', plan);
    END IF;
    RETURN stop;
END
$$;
-- +goose StatementEnd

-- Gives the lease back and returns the state: done, or else interrupted or stopped, and why.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_end(plan uuid, lease uuid, interrupted boolean, why text, watched jsonb) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    ended text;
BEGIN
    UPDATE @schema@.outbox_plans AS p
       SET state = CASE WHEN NOT EXISTS (SELECT FROM @schema@.outbox_plan_chunks AS c WHERE c.plan_id = plan AND c.done < c.size) THEN 'done'
                    WHEN interrupted THEN 'interrupted' ELSE 'stopped' END,
           ended_at = now(), ended_why = coalesce(nullif(why, ''), 'stopped by ' || p.stop_by), lease = NULL, lease_until = NULL,
           watched = outbox_plan_end.watched
     WHERE p.id = plan AND p.state = 'running' AND p.lease = outbox_plan_end.lease
    RETURNING p.state INTO ended;
    IF ended IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: another runner has taken it over', plan);
    END IF;
    RETURN ended;
END
$$;
-- +goose StatementEnd

-- Asks a run to stop; it does after the rows it is at.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_stop(plan uuid, actor text) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF coalesce(btrim(actor), '') = '' THEN
        RAISE EXCEPTION 'actor: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'actor';
    END IF;
    UPDATE @schema@.outbox_plans AS p SET stop_by = coalesce(p.stop_by, actor) WHERE p.id = plan AND p.state = 'running';
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OX310', MESSAGE = format('plan %s: is not running', plan);
    END IF;
END
$$;
-- +goose StatementEnd

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_add_counts(jsonb, text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_left_out(uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_create(text, text, text, jsonb, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_add(uuid, uuid, int, uuid[], text[], boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_ready(uuid, uuid, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_abandon(uuid, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_begin(uuid, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_step(uuid, uuid, int, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_beat(uuid, uuid, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_end(uuid, uuid, boolean, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_stop(uuid, text) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_create(text, text, text, jsonb, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_add(uuid, uuid, int, uuid[], text[], boolean) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_ready(uuid, uuid, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_abandon(uuid, text, text) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_begin(uuid, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_step(uuid, uuid, int, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_beat(uuid, uuid, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_end(uuid, uuid, boolean, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_stop(uuid, text) TO outbox_operator');
-- The lease is the runner's alone, and a digest would let a viewer guess at payloads.
SELECT outbox_grant('GRANT SELECT (id, action, state, author, db_user, note, filter, undoes, database, created_at, ready_at, total, left_out, summary, lease_until, runner, options, started_at, ended_at, stop_by, ended_why, watched) ON outbox_plans TO outbox_operator');
SELECT outbox_grant('GRANT SELECT (id, action, state, author, db_user, note, filter, undoes, database, created_at, ready_at, total, left_out, summary, lease_until, runner, options, started_at, ended_at, stop_by, ended_why, watched) ON outbox_plans TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT (plan_id, chunk, size, summary, left_out, ids, event_ids, seen, digests, done, counts, outcomes) ON outbox_plan_chunks TO outbox_operator');
SELECT outbox_grant('GRANT SELECT (plan_id, chunk, size, summary, left_out, ids, event_ids, seen, done, counts, outcomes) ON outbox_plan_chunks TO outbox_viewer');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_plan_stop(uuid, text);
DROP FUNCTION IF EXISTS outbox_plan_end(uuid, uuid, boolean, text, jsonb);
DROP FUNCTION IF EXISTS outbox_plan_beat(uuid, uuid, jsonb);
DROP FUNCTION IF EXISTS outbox_plan_step(uuid, uuid, int, text, jsonb);
DROP FUNCTION IF EXISTS outbox_plan_begin(uuid, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_plan_abandon(uuid, text, text);
DROP FUNCTION IF EXISTS outbox_plan_ready(uuid, uuid, jsonb);
DROP FUNCTION IF EXISTS outbox_plan_add(uuid, uuid, int, uuid[], text[], boolean);
DROP FUNCTION IF EXISTS outbox_plan_create(text, text, text, jsonb, text, jsonb);
DROP FUNCTION IF EXISTS outbox_plan_left_out(uuid);
DROP FUNCTION IF EXISTS outbox_add_counts(jsonb, text[]);
DROP TABLE IF EXISTS outbox_plan_chunks;
DROP TABLE IF EXISTS outbox_plans;

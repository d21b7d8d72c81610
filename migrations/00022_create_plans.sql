-- A large change is frozen before it is made: a plan holds the set, in chunks of
-- a thousand ids with a digest of what each carries. Running it does one chunk
-- after the other, each in one transaction with its audit row and the mark that
-- it is done. So an operator on any machine sees the same run; a killed
-- one is resumed where it was; and no row is changed twice. The tables are
-- written by the functions below alone. Refusals:
--   OX300 malformed argument      OX310 the plan is in another state
--   OX311 no such plan            OX312 another runner has the lease

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

CREATE TABLE outbox_plans (
    id          uuid        PRIMARY KEY DEFAULT outbox_uuid_v7(),
    action      text        NOT NULL
        CONSTRAINT outbox_plans_action_check CHECK (action IN ('dlq.replay', 'dlq.discard', 'dlq.restore', 'event.republish')),
    state       text        NOT NULL DEFAULT 'freezing'
        CONSTRAINT outbox_plans_state_check
        CHECK (state IN ('freezing', 'ready', 'abandoned', 'running', 'stopped', 'interrupted', 'done')),
    author      text        NOT NULL,
    db_user     text        NOT NULL DEFAULT session_user,
    note        text,
    filter      jsonb,
    database    jsonb       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    frozen_at   timestamptz,
    total       bigint      NOT NULL DEFAULT 0,
    left_out    jsonb       NOT NULL DEFAULT '{}',
    summary     jsonb       NOT NULL DEFAULT '{}',
    -- The run. Who has the lease freezes or runs; a lease that ended belongs to a process that is gone.
    lease       uuid,
    lease_until timestamptz,
    runner      text,
    options     jsonb,
    started_at  timestamptz,
    ended_at    timestamptz,
    stop_by     text,
    ended_why   text,
    done        bigint      NOT NULL DEFAULT 0,
    counts      jsonb       NOT NULL DEFAULT '{}',
    watched     jsonb
) WITH (fillfactor = 70);

CREATE TABLE outbox_plan_chunks (
    plan_id   uuid          NOT NULL REFERENCES outbox_plans ON DELETE CASCADE,
    chunk     integer       NOT NULL,
    ids       uuid[]        NOT NULL,
    event_ids uuid[]        NOT NULL,
    seen      timestamptz[] NOT NULL,
    digests   bytea[]       NOT NULL,
    done      integer       NOT NULL DEFAULT 0,
    -- What became of the ids that were not changed, by id.
    outcomes  jsonb         NOT NULL DEFAULT '{}',
    PRIMARY KEY (plan_id, chunk)
);

-- Begins a plan. Plans that were not started within a week, and their like of three
-- months ago, go: the audit keeps what was changed.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_create(action text, author text, note text, filter jsonb, database jsonb, OUT plan uuid, OUT lease uuid)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
BEGIN
    IF coalesce(btrim(author), '') = '' THEN
        RAISE EXCEPTION 'author: must not be empty' USING ERRCODE = 'OX300', COLUMN = 'author';
    END IF;
    IF action NOT IN ('dlq.replay', 'dlq.discard', 'dlq.restore', 'event.republish') THEN
        RAISE EXCEPTION USING ERRCODE = 'OX300', COLUMN = 'action', MESSAGE = format('action: %s is none that can be planned', action);
    END IF;
    DELETE FROM @schema@.outbox_plans AS p
     WHERE (p.started_at IS NULL AND p.created_at < now() - interval '8 days')
        OR (p.state <> 'running' AND p.created_at < now() - interval '90 days');
    lease := gen_random_uuid();
    INSERT INTO @schema@.outbox_plans AS p (action, author, note, filter, database, lease, lease_until)
    VALUES (action, author, nullif(btrim(note), ''), filter, database, lease, now() + interval '30 seconds')
    RETURNING p.id INTO plan;
END
$$;
-- +goose StatementEnd

-- Adds a chunk to a plan that is being frozen, and returns how many rows it has. What the rows are is counted here, and not
-- taken from the caller: an operator who confirms a plan that another one made decides by these figures. Each kind tells a
-- hundred names apart; others counts the rest.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_add(plan uuid, lease uuid, ids uuid[], event_ids uuid[], seen timestamptz[], digests bytea[]) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    sum bigint;
BEGIN
    IF coalesce(cardinality(ids), 0) NOT BETWEEN 1 AND 1000 OR cardinality(ids) <> cardinality(event_ids)
       OR cardinality(ids) <> cardinality(seen) OR cardinality(ids) <> cardinality(digests) THEN
        RAISE EXCEPTION 'ids: 1 to 1000 of them, and as much of everything else' USING ERRCODE = 'OX300', COLUMN = 'ids';
    END IF;
    UPDATE @schema@.outbox_plans AS p
       SET total = p.total + cardinality(ids), lease_until = now() + interval '30 seconds', summary = (
           WITH counted AS (
               SELECT c.kind, c.name, sum(c.n) AS n, bool_or(c.known) AS known
                 FROM (SELECT k.key AS kind, v.key AS name, v.value::bigint AS n, true AS known
                         FROM jsonb_each(p.summary) AS k, jsonb_each_text(k.value) AS v
                       UNION ALL
                       SELECT k.kind, k.name, 1, false
                         FROM @schema@.outbox_dlq AS d,
                              LATERAL (VALUES ('reasons', d.error_reason::text), ('types', d.event_type::text), ('topics', d.topic),
                                              ('tenants', d.tenant_id::text)) AS k (kind, name)
                        WHERE d.id = ANY (ids) AND p.action <> 'event.republish'
                       UNION ALL
                       SELECT k.kind, k.name, 1, false
                         FROM @schema@.outbox_events AS e,
                              LATERAL (VALUES ('types', e.event_type::text), ('tenants', e.tenant_id::text)) AS k (kind, name)
                        WHERE e.id = ANY (ids) AND p.action = 'event.republish') AS c
                WHERE c.name <> ''
                GROUP BY 1, 2),
           named AS (
               SELECT c.kind, c.n, CASE WHEN row_number() OVER (PARTITION BY c.kind, c.name = 'others' ORDER BY c.known DESC, c.name) > 100
                                        THEN 'others' ELSE c.name END AS name
                 FROM counted AS c)
           SELECT coalesce(jsonb_object_agg(k.kind, k.counts), '{}')
             FROM (SELECT m.kind, jsonb_object_agg(m.name, m.n) AS counts
                     FROM (SELECT n.kind, n.name, sum(n.n) AS n FROM named AS n GROUP BY 1, 2) AS m
                    GROUP BY 1) AS k)
     WHERE p.id = plan AND p.state = 'freezing' AND p.lease = outbox_plan_add.lease
    RETURNING p.total INTO sum;
    IF sum IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: is not being frozen by you', plan);
    END IF;
    INSERT INTO @schema@.outbox_plan_chunks AS c (plan_id, chunk, ids, event_ids, seen, digests)
    SELECT plan, coalesce(max(o.chunk), 0) + 1, ids, event_ids, seen, digests
      FROM @schema@.outbox_plan_chunks AS o WHERE o.plan_id = plan;
    RETURN sum;
END
$$;
-- +goose StatementEnd

-- Ends the freezing: the set is whole, and what was left out is counted by outcome. effects is what the change does to waiting
-- events beside the set.
-- +goose StatementBegin
CREATE FUNCTION outbox_plan_ready(plan uuid, lease uuid, left_out jsonb, effects jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    UPDATE @schema@.outbox_plans AS p
       SET state = 'ready', frozen_at = now(), left_out = coalesce(outbox_plan_ready.left_out, '{}'),
           summary = p.summary || jsonb_strip_nulls(jsonb_build_object('releases', effects -> 'releases', 'behind', effects -> 'behind')),
           lease = NULL, lease_until = NULL
     WHERE p.id = plan AND p.state = 'freezing' AND p.lease = outbox_plan_ready.lease;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: is not being frozen by you', plan);
    END IF;
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
       SET state = 'abandoned', ended_at = now(), ended_why = coalesce(nullif(btrim(why), ''), 'abandoned by ' || actor), lease = NULL, lease_until = NULL
     WHERE p.id = plan AND p.state IN ('freezing', 'ready');
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
CREATE FUNCTION outbox_run_begin(plan uuid, runner text, note text, options jsonb) RETURNS uuid
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
       SET state = 'running', lease = token, lease_until = now() + interval '30 seconds', runner = outbox_run_begin.runner,
           note = coalesce(o.note, nullif(btrim(outbox_run_begin.note), '')), options = outbox_run_begin.options, started_at = coalesce(o.started_at, now()), ended_at = NULL, ended_why = NULL, stop_by = NULL
     WHERE o.id = plan;
    RETURN token;
END
$$;
-- +goose StatementEnd

-- Does the next rows of a run, at most max_rows and not beyond the end of a chunk: what carries something else than when
-- it was frozen is left alone, the rest is changed, and all of it is marked as done. No rows: the run is at its end, or
-- was asked to stop.
-- +goose StatementBegin
CREATE FUNCTION outbox_run_step(plan uuid, lease uuid, max_rows int, actor text, detail jsonb)
    RETURNS TABLE (id uuid, event_id uuid, outcome text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    p       @schema@.outbox_plans;
    c       @schema@.outbox_plan_chunks;
    success text;
    start   int;
    stop    int;
    about   jsonb;
    todo    uuid[];
    times   timestamptz[];
    keys    uuid[];
    events  uuid[];
    results text[];
BEGIN
    SELECT * INTO p FROM @schema@.outbox_plans AS o WHERE o.id = plan AND o.state = 'running' AND o.lease = outbox_run_step.lease FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'OX312', MESSAGE = format('plan %s: another runner has taken it over', plan);
    END IF;
    IF p.stop_by IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT * INTO c FROM @schema@.outbox_plan_chunks AS o
     WHERE o.plan_id = plan AND o.done < cardinality(o.ids) ORDER BY o.chunk LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    start := c.done + 1;
    stop := least(cardinality(c.ids), c.done + greatest(max_rows, 1));

    SELECT array_agg(w.id ORDER BY w.ord), array_agg(w.seen ORDER BY w.ord) INTO todo, times
      FROM unnest(c.ids[start:stop], c.seen[start:stop], c.digests[start:stop]) WITH ORDINALITY AS w(id, seen, digest, ord)
      LEFT JOIN @schema@.outbox_dlq AS d ON p.action <> 'event.republish' AND d.id = w.id
      LEFT JOIN @schema@.outbox_events AS e ON e.id = CASE WHEN p.action = 'event.republish' THEN w.id ELSE d.event_id END
     WHERE coalesce(e.payload_json, d.payload_json) IS NULL
        OR sha256(convert_to(coalesce(e.payload_json, d.payload_json)::text, 'UTF8')) = w.digest;

    about := coalesce(detail, '{}') || jsonb_build_object('runId', plan, 'planId', plan, 'author', p.author, 'chunk', c.chunk);
    IF todo IS NOT NULL THEN
        CASE p.action
        WHEN 'dlq.replay' THEN
            success := 'replayed';
            SELECT array_agg(r.dlq_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_replay(todo, actor, p.note, about) AS r;
        WHEN 'dlq.discard' THEN
            success := 'discarded';
            SELECT array_agg(r.dlq_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_discard(todo, actor, p.note, about) AS r;
        WHEN 'dlq.restore' THEN
            success := 'restored';
            SELECT array_agg(r.dlq_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_restore(todo, actor, p.note, about) AS r;
        ELSE
            success := 'republished';
            SELECT array_agg(r.event_id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
              FROM @schema@.outbox_republish(todo, times, actor, p.note, about) AS r;
        END CASE;
    END IF;
    -- In the order of the plan; what was not tried has changed.
    SELECT array_agg(w.id ORDER BY w.ord), array_agg(coalesce(r.event_id, w.event_id) ORDER BY w.ord),
           array_agg(coalesce(r.outcome, 'changed') ORDER BY w.ord)
      INTO keys, events, results
      FROM unnest(c.ids[start:stop], c.event_ids[start:stop]) WITH ORDINALITY AS w(id, event_id, ord)
      LEFT JOIN unnest(keys, events, results) AS r(id, event_id, outcome) ON r.id = w.id;

    UPDATE @schema@.outbox_plan_chunks AS o
       SET done = stop,
           outcomes = o.outcomes || coalesce((SELECT jsonb_object_agg(r.id, r.outcome) FROM unnest(keys, results) AS r(id, outcome)
                                               WHERE r.outcome <> coalesce(success, '')), '{}')
     WHERE o.plan_id = plan AND o.chunk = c.chunk;
    UPDATE @schema@.outbox_plans AS o
       SET done = o.done + cardinality(keys), lease_until = now() + interval '30 seconds',
           counts = (SELECT jsonb_object_agg(s.outcome, s.n)
                       FROM (SELECT k.outcome, sum(k.n) AS n
                               FROM (SELECT b.key AS outcome, b.value::bigint AS n FROM jsonb_each_text(o.counts) AS b
                                     UNION ALL
                                     SELECT r.outcome, 1::bigint FROM unnest(results) AS r(outcome)) AS k
                              GROUP BY k.outcome) AS s)
     WHERE o.id = plan;
    RETURN QUERY SELECT r.id, r.event_id, r.outcome FROM unnest(keys, events, results) AS r(id, event_id, outcome);
END
$$;
-- +goose StatementEnd

-- Keeps the lease while a run waits, and tells whether an operator asked it to stop.
-- +goose StatementBegin
CREATE FUNCTION outbox_run_beat(plan uuid, lease uuid) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    stop boolean;
BEGIN
    UPDATE @schema@.outbox_plans AS p
       SET lease_until = now() + interval '30 seconds'
     WHERE p.id = plan AND p.state = 'running' AND p.lease = outbox_run_beat.lease
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
CREATE FUNCTION outbox_run_end(plan uuid, lease uuid, interrupted boolean, why text, watched jsonb) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
DECLARE
    ended text;
BEGIN
    UPDATE @schema@.outbox_plans AS p
       SET state = CASE WHEN p.done = p.total THEN 'done' WHEN interrupted THEN 'interrupted' ELSE 'stopped' END,
           ended_at = now(), ended_why = coalesce(nullif(why, ''), 'stopped by ' || p.stop_by), lease = NULL, lease_until = NULL,
           watched = outbox_run_end.watched
     WHERE p.id = plan AND p.state = 'running' AND p.lease = outbox_run_end.lease
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
CREATE FUNCTION outbox_run_stop(plan uuid, actor text) RETURNS void
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
REVOKE ALL ON FUNCTION outbox_plan_create(text, text, text, jsonb, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_add(uuid, uuid, uuid[], uuid[], timestamptz[], bytea[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_ready(uuid, uuid, jsonb, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_plan_abandon(uuid, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_run_begin(uuid, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_run_step(uuid, uuid, int, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_run_beat(uuid, uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_run_end(uuid, uuid, boolean, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_run_stop(uuid, text) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_create(text, text, text, jsonb, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_add(uuid, uuid, uuid[], uuid[], timestamptz[], bytea[]) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_ready(uuid, uuid, jsonb, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_abandon(uuid, text, text) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_run_begin(uuid, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_run_step(uuid, uuid, int, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_run_beat(uuid, uuid) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_run_end(uuid, uuid, boolean, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_run_stop(uuid, text) TO outbox_operator');
-- The lease is the runner's alone, and a digest would let a viewer guess at payloads.
SELECT outbox_grant('GRANT SELECT (id, action, state, author, db_user, note, filter, database, created_at, frozen_at, total, left_out, summary, lease_until, runner, options, started_at, ended_at, stop_by, ended_why, done, counts, watched) ON outbox_plans TO outbox_operator');
SELECT outbox_grant('GRANT SELECT (id, action, state, author, db_user, note, filter, database, created_at, frozen_at, total, left_out, summary, lease_until, runner, options, started_at, ended_at, stop_by, ended_why, done, counts, watched) ON outbox_plans TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT (plan_id, chunk, ids, event_ids, seen, digests, done, outcomes) ON outbox_plan_chunks TO outbox_operator');
SELECT outbox_grant('GRANT SELECT (plan_id, chunk, ids, event_ids, seen, done, outcomes) ON outbox_plan_chunks TO outbox_viewer');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_run_stop(uuid, text);
DROP FUNCTION IF EXISTS outbox_run_end(uuid, uuid, boolean, text, jsonb);
DROP FUNCTION IF EXISTS outbox_run_beat(uuid, uuid);
DROP FUNCTION IF EXISTS outbox_run_step(uuid, uuid, int, text, jsonb);
DROP FUNCTION IF EXISTS outbox_run_begin(uuid, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_plan_abandon(uuid, text, text);
DROP FUNCTION IF EXISTS outbox_plan_ready(uuid, uuid, jsonb, jsonb);
DROP FUNCTION IF EXISTS outbox_plan_add(uuid, uuid, uuid[], uuid[], timestamptz[], bytea[]);
DROP FUNCTION IF EXISTS outbox_plan_create(text, text, text, jsonb, jsonb);
DROP TABLE IF EXISTS outbox_plan_chunks;
DROP TABLE IF EXISTS outbox_plans;

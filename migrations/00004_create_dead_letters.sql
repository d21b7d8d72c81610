-- Events that cannot be published, who changed what, and changes of many rows. A row of outbox_dlq is the record of one
-- death: event_id repeats when a replayed event dies again.

-- +goose Up

-- Append-only in the database, for every writer. The update guards fire once per
-- statement and only when an immutable column is named, so claiming and
-- settling never meet them; a row trigger would lock each row a second time.
-- (The audit trail has one, and no hot path.)

-- +goose StatementBegin
CREATE FUNCTION outbox_refuse_update() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'table % is append-only: the update names a column that never changes', TG_TABLE_NAME
        USING ERRCODE = 'OX100', TABLE = TG_TABLE_NAME,
              HINT = 'To correct an event, emit a new one that names it.';
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION outbox_refuse_delete() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'row % of table % may not be deleted: %', OLD.id, TG_TABLE_NAME, TG_ARGV[0]
        USING ERRCODE = 'OX101', TABLE = TG_TABLE_NAME;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION outbox_refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RAISE EXCEPTION 'table % may not be truncated', TG_TABLE_NAME
        USING ERRCODE = 'OX102', TABLE = TG_TABLE_NAME,
              HINT = 'outboxctl cleanup removes what is no longer needed.';
END
$$;
-- +goose StatementEnd

-- A number of a few bytes may have 131,072 digits: rows of nothing else fill the memory of their reader. No other
-- JSON takes more than six times its stored size when it is printed. What arrives compressed, copied from another
-- table, looks small and is measured again.
-- +goose StatementBegin
CREATE FUNCTION outbox_refuse_inflated() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT v.name, octet_length(v.printed) AS printed, pg_column_size(v.printed::jsonb) AS stored
          FROM (VALUES ('payload_json', NEW.payload_json::text), ('headers', NEW.headers::text)) AS v(name, printed)
    LOOP
        IF c.printed > 8 * c.stored + 4096 THEN
            RAISE EXCEPTION '%: its numbers make % bytes of % when they are written out', c.name, c.printed, c.stored
                USING ERRCODE = 'OX104', TABLE = TG_TABLE_NAME, COLUMN = c.name, HINT = 'Send such a number as a string.';
        END IF;
    END LOOP;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- Version 7: ids sort by time of creation, so indexes grow at one end. The
-- twelve bits after the version hold the fraction of the millisecond.
-- +goose StatementBegin
CREATE FUNCTION outbox_uuid_v7() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    -- 48 bits of milliseconds, the version, 12 bits of the fraction, random. One expression, parsed here and now: PostgreSQL
    -- puts it in the place of the call, which makes it ten times cheaper.
    RETURN (overlay(lpad(to_hex(floor(date_part('epoch', clock_timestamp()) * 4096000)::bigint), 15, '0') PLACING '7' FROM 13 FOR 0)
            || substr(gen_random_uuid()::text, 20))::uuid;
-- +goose StatementEnd

-- The nth of many that are made at once: the fraction counts on from ticks, the 4,096ths of a millisecond since 1970, and what is
-- random is a hash of one random text and n. Numbers first and digits last takes half as long as texts put together.
CREATE FUNCTION outbox_uuid_v7(ticks bigint, random text, n bigint) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN encode(int8send(((ticks + n) & -4096) << 4 | ((ticks + n) & 4095 | 28672))
               || int8send(hashtextextended(random, n) & 4611686018427387903 | (-9223372036854775807 - 1)), 'hex')::uuid;
REVOKE ALL ON FUNCTION outbox_uuid_v7(bigint, text, bigint) FROM PUBLIC;

-- One function, and one for lists, for each column whose type differs between
-- installations: text in, that column's own type out. PostgreSQL puts their body in
-- the place of the call, so that event_type = outbox_event_type($1) uses the index
-- whatever the type is; event_type::text = $1 would not. Their body is parsed
-- here and now, so that no name in it is looked up again.
-- +goose StatementBegin
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT a.attname AS name, format_type(a.atttypid, NULL) AS type
          FROM pg_attribute AS a
         WHERE a.attrelid = 'outbox_events'::regclass AND a.attname IN ('event_type', 'aggregate_type', 'aggregate_id')
    LOOP
        EXECUTE format('CREATE FUNCTION outbox_%1$s(value text) RETURNS %2$s LANGUAGE sql STABLE PARALLEL SAFE RETURN value::%2$s', c.name, c.type);
        EXECUTE format('CREATE FUNCTION outbox_%1$s(list text[]) RETURNS %2$s[] LANGUAGE sql STABLE PARALLEL SAFE RETURN list::%2$s[]', c.name, c.type);
    END LOOP;
END
$$;
-- +goose StatementEnd

CREATE TYPE outbox_dlq_reason AS ENUM (
    'max_attempts',
    'unknown_event_type',
    'invalid_payload',
    'aggregate_mismatch',
    'message_too_large',
    'rejected_by_broker',
    'erased',
    'expired'
);

-- The three columns are what they are in outbox_events.
-- +goose StatementBegin
DO $do$
BEGIN
    EXECUTE format($t$
CREATE TABLE outbox_dlq (
    id               uuid                PRIMARY KEY DEFAULT outbox_uuid_v7(),
    event_id         uuid                NOT NULL,
    event_type       %s NOT NULL,
    aggregate_type   %s NOT NULL,
    aggregate_id     %s NOT NULL,
    payload_json     jsonb               NOT NULL,
    headers          jsonb,
    error_reason     outbox_dlq_reason   NOT NULL,
    error_message    text                NOT NULL,
    attempt_count    integer             NOT NULL,
    failed_at        timestamptz         NOT NULL DEFAULT now(),
    namespace        text                NOT NULL DEFAULT 'default',
    tenant_id        uuid,
    topic            text,
    fingerprint      text,
    event_created_at timestamptz,
    -- What follows is all that may change.
    state            text                NOT NULL DEFAULT 'open'
        CONSTRAINT outbox_dlq_state_check CHECK (state IN ('open', 'replayed', 'discarded')),
    state_changed_at timestamptz,
    audit_id         bigint,
    -- The event that was emitted in its place; a corrected dead letter is neither replayed nor restored.
    corrected_by     uuid,
    -- When payload, headers and error message were removed.
    erased_at        timestamptz
)$t$, VARIADIC ARRAY(
        SELECT format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE ' || a.attcollation::regcollation ELSE '' END
          FROM pg_attribute AS a
          JOIN pg_type AS t ON t.oid = a.atttypid
         WHERE a.attrelid = 'outbox_events'::regclass AND a.attname IN ('event_type', 'aggregate_type', 'aggregate_id')
         ORDER BY a.attname DESC));
END
$do$;
-- +goose StatementEnd

-- Lists run newest first, so each index carries the order after its filter:
-- a page is read from one end of it however rare the value is. Triage looks at open dead letters, and replaying one takes
-- it out of that set. Indexes on what is filtered by are therefore partial on 'open': a replay
-- then writes to none of them. Handled rows are found by event, or by
-- walking them in order of time.
CREATE INDEX outbox_dlq_recent_idx ON outbox_dlq (failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_event_idx ON outbox_dlq (event_id, failed_at DESC, id DESC);
CREATE INDEX outbox_dlq_open_idx ON outbox_dlq (failed_at DESC, id DESC) WHERE state = 'open';
CREATE INDEX outbox_dlq_discarded_idx ON outbox_dlq (failed_at DESC, id DESC) WHERE state = 'discarded';
-- These run in one direction, so that a page can be asked for by comparing whole
-- rows of the index, (column, time, id), which no other index can answer: the
-- planner is left no choice that looks cheaper and walks the whole table.
CREATE INDEX outbox_dlq_open_reason_idx ON outbox_dlq (error_reason, failed_at, id) WHERE state = 'open';
CREATE INDEX outbox_dlq_open_type_idx ON outbox_dlq (event_type, failed_at, id) WHERE state = 'open';
CREATE INDEX outbox_dlq_open_topic_idx ON outbox_dlq (topic, failed_at, id) WHERE state = 'open';
CREATE INDEX outbox_dlq_open_fingerprint_idx ON outbox_dlq (fingerprint, failed_at, id) WHERE state = 'open';
CREATE INDEX outbox_dlq_open_namespace_idx ON outbox_dlq (namespace, failed_at, id) WHERE state = 'open';
CREATE INDEX outbox_dlq_open_tenant_idx ON outbox_dlq (tenant_id, failed_at, id) WHERE state = 'open' AND tenant_id IS NOT NULL;
CREATE INDEX outbox_dlq_open_aggregate_idx ON outbox_dlq (aggregate_id, failed_at, id) WHERE state = 'open';
-- Cleanup removes what was handled long ago.
CREATE INDEX outbox_dlq_handled_idx ON outbox_dlq (state_changed_at) WHERE state <> 'open';

-- Who changed what, when, why and how many: written in the same transaction
-- as the change. db_user is the login, which a SET ROLE does not hide.
CREATE TABLE outbox_audit (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    actor    text        NOT NULL CONSTRAINT outbox_audit_actor_check CHECK (btrim(actor) <> ''),
    db_user  text        NOT NULL DEFAULT session_user,
    action   text        NOT NULL,
    note     text,
    detail   jsonb,
    affected bigint      NOT NULL DEFAULT 0
);
CREATE INDEX outbox_audit_at_idx ON outbox_audit (at DESC, id DESC);

-- The history of one event.
CREATE INDEX outbox_audit_events_idx ON outbox_audit USING gin ((detail -> 'eventIds') jsonb_path_ops);
-- The audit rows of one run, without reading the ids of every other.
CREATE INDEX outbox_audit_run_idx ON outbox_audit ((detail ->> 'runId'), id) WHERE detail ->> 'runId' IS NOT NULL;

CREATE TRIGGER outbox_dlq_refuse_update
    BEFORE UPDATE OF id, event_id, event_type, aggregate_type, aggregate_id, error_reason,
        attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at
    ON outbox_dlq FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_dlq_refuse_content
    BEFORE UPDATE OF payload_json, headers, error_message, erased_at ON outbox_dlq FOR EACH STATEMENT
    WHEN (current_setting('outboxctl.erases', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_dlq_refuse_delete
    BEFORE DELETE ON outbox_dlq FOR EACH ROW
    WHEN (OLD.state = 'open')
    EXECUTE FUNCTION outbox_refuse_delete('the dead letter is still open');
CREATE TRIGGER outbox_dlq_refuse_truncate
    BEFORE TRUNCATE ON outbox_dlq FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();

-- A cleanup counts its batches in one row, so that row grows. Old rows go by way of the function that records it.
CREATE TRIGGER outbox_audit_refuse_update
    BEFORE UPDATE OF id, at, actor, db_user, action, note ON outbox_audit FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_audit_refuse_change
    BEFORE UPDATE ON outbox_audit FOR EACH ROW
    WHEN (OLD.action <> 'cleanup' OR NEW.affected < OLD.affected)
    EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_audit_refuse_delete
    BEFORE DELETE ON outbox_audit FOR EACH ROW
    WHEN (current_setting('outboxctl.audit_cleanup', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION outbox_refuse_delete('the audit trail is kept');
CREATE TRIGGER outbox_audit_refuse_truncate
    BEFORE TRUNCATE ON outbox_audit FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();

-- How many dead letters are open, and how many discarded: counting a million of
-- them takes a second, and every report and every scrape asks. Each statement
-- that changes outbox_dlq leaves rows that say by how much, in its own
-- transaction; their sum is exact in every snapshot. They are only added, never
-- updated, so a death waits for no other transaction. Causes, which may be as
-- many as dead letters, have a table of their own: a report need not read it.
CREATE TABLE outbox_dlq_counts (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state          text   NOT NULL,
    error_reason   text   NOT NULL,
    event_type     text   NOT NULL,
    aggregate_type text   NOT NULL,
    namespace      text   NOT NULL,
    topic          text,
    n              bigint NOT NULL
);

-- Open dead letters by fingerprint; those without one have an empty one.
CREATE TABLE outbox_dlq_causes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text   NOT NULL,
    n           bigint NOT NULL
);
CREATE INDEX outbox_dlq_causes_fingerprint_idx ON outbox_dlq_causes (fingerprint);

-- Now and then it adds rows up, so that there are never many: those no other session
-- is adding up, and not in an isolation level where another one who does is an
-- error. Of the causes it takes those that changed, one in sixteen.
-- +goose StatementBegin
CREATE FUNCTION outbox_count_dead_letters() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    added  bigint;
    chosen text[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        WITH changed AS (
            INSERT INTO @schema@.outbox_dlq_causes (fingerprint, n)
            SELECT coalesce(a.fingerprint, ''), count(*) FROM arrived AS a WHERE a.state = 'open' GROUP BY 1
            RETURNING fingerprint)
        SELECT array_agg(c.fingerprint) FILTER (WHERE random() * 16 < 1) INTO chosen FROM changed AS c;
        INSERT INTO @schema@.outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
        SELECT a.state, a.error_reason::text, a.event_type::text, a.aggregate_type::text, a.namespace, a.topic, count(*)
          FROM arrived AS a
         WHERE a.state <> 'replayed'
         GROUP BY 1, 2, 3, 4, 5, 6;
    ELSIF TG_OP = 'DELETE' THEN
        WITH changed AS (
            INSERT INTO @schema@.outbox_dlq_causes (fingerprint, n)
            SELECT coalesce(d.fingerprint, ''), -count(*) FROM departed AS d WHERE d.state = 'open' GROUP BY 1
            RETURNING fingerprint)
        SELECT array_agg(c.fingerprint) FILTER (WHERE random() * 16 < 1) INTO chosen FROM changed AS c;
        INSERT INTO @schema@.outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
        SELECT d.state, d.error_reason::text, d.event_type::text, d.aggregate_type::text, d.namespace, d.topic, -count(*)
          FROM departed AS d
         WHERE d.state <> 'replayed'
         GROUP BY 1, 2, 3, 4, 5, 6;
    ELSE
        WITH changed AS (
            INSERT INTO @schema@.outbox_dlq_causes (fingerprint, n)
            SELECT c.fingerprint, sum(c.n)
              FROM (SELECT coalesce(a.fingerprint, '') AS fingerprint, 1 AS n FROM arrived AS a WHERE a.state = 'open'
                    UNION ALL
                    SELECT coalesce(d.fingerprint, ''), -1 FROM departed AS d WHERE d.state = 'open') AS c
             GROUP BY 1
            HAVING sum(c.n) <> 0
            RETURNING fingerprint)
        SELECT array_agg(c.fingerprint) FILTER (WHERE random() * 16 < 1) INTO chosen FROM changed AS c;
        INSERT INTO @schema@.outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
        SELECT c.state, c.error_reason::text, c.event_type::text, c.aggregate_type::text, c.namespace, c.topic, sum(c.n)
          FROM (SELECT a.state, a.error_reason, a.event_type, a.aggregate_type, a.namespace, a.topic, 1 AS n FROM arrived AS a
                UNION ALL
                SELECT d.state, d.error_reason, d.event_type, d.aggregate_type, d.namespace, d.topic, -1 FROM departed AS d) AS c
         WHERE c.state <> 'replayed'
         GROUP BY 1, 2, 3, 4, 5, 6
        HAVING sum(c.n) <> 0;
    END IF;
    GET DIAGNOSTICS added = ROW_COUNT;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN NULL;
    END IF;
    IF chosen IS NOT NULL THEN
        WITH merged AS (
            DELETE FROM @schema@.outbox_dlq_causes AS c
             WHERE c.id IN (SELECT o.id FROM @schema@.outbox_dlq_causes AS o WHERE o.fingerprint = ANY (chosen) FOR UPDATE SKIP LOCKED)
            RETURNING c.fingerprint, c.n)
        INSERT INTO @schema@.outbox_dlq_causes (fingerprint, n)
        SELECT s.fingerprint, sum(s.n) FROM merged AS s GROUP BY 1 HAVING sum(s.n) <> 0;
    END IF;
    IF random() * 16 < added THEN
        WITH merged AS (
            DELETE FROM @schema@.outbox_dlq_counts AS c
             WHERE c.id IN (SELECT o.id FROM @schema@.outbox_dlq_counts AS o ORDER BY o.id LIMIT 1000 FOR UPDATE SKIP LOCKED)
            RETURNING c.state, c.error_reason, c.event_type, c.aggregate_type, c.namespace, c.topic, c.n)
        INSERT INTO @schema@.outbox_dlq_counts (state, error_reason, event_type, aggregate_type, namespace, topic, n)
        SELECT s.state, s.error_reason, s.event_type, s.aggregate_type, s.namespace, s.topic, sum(s.n)
          FROM merged AS s
         GROUP BY 1, 2, 3, 4, 5, 6
        HAVING sum(s.n) <> 0;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER outbox_dlq_count_insert AFTER INSERT ON outbox_dlq
    REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION outbox_count_dead_letters();
CREATE TRIGGER outbox_dlq_count_update AFTER UPDATE ON outbox_dlq
    REFERENCING OLD TABLE AS departed NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION outbox_count_dead_letters();
CREATE TRIGGER outbox_dlq_count_delete AFTER DELETE ON outbox_dlq
    REFERENCING OLD TABLE AS departed FOR EACH STATEMENT EXECUTE FUNCTION outbox_count_dead_letters();

-- A change is a plan before it is made: a plan holds the set, in chunks of a
-- thousand ids with a digest of what each carries. Running it does the chunks,
-- each in one transaction with its audit row and the mark that it is done. So an
-- operator on any machine sees the same run; a killed one is resumed where it
-- was; and no row is changed twice. The tables are written by the functions
-- below alone. Refusals:
--   OX300 malformed argument      OX310 the plan is in another state
--   OX311 no such plan            OX312 another runner has the lease
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
        SELECT array_agg(r.id), array_agg(r.event_id), array_agg(r.outcome) INTO keys, events, results
          FROM @schema@.outbox_change(p.action, todo, actor, p.note, about, sights) AS r;
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

REVOKE ALL ON FUNCTION outbox_count_dead_letters, outbox_add_counts, outbox_plan_left_out, outbox_plan_create, outbox_plan_add, outbox_plan_ready,
    outbox_plan_abandon, outbox_plan_begin, outbox_plan_step, outbox_plan_beat, outbox_plan_end, outbox_plan_stop FROM PUBLIC;

-- Last, because it locks the table of events until the end of the transaction.
CREATE TRIGGER outbox_events_refuse_inflated
    BEFORE INSERT ON outbox_events FOR EACH ROW
    WHEN (octet_length(NEW.payload_json::text) > 8 * pg_column_size(NEW.payload_json) + 4096
          OR octet_length(NEW.headers::text) > 8 * pg_column_size(NEW.headers) + 4096)
    EXECUTE FUNCTION outbox_refuse_inflated();
CREATE TRIGGER outbox_events_refuse_update
    BEFORE UPDATE OF id, event_type, aggregate_type, aggregate_id, created_at,
        namespace, tenant_id, dedupe_key, max_attempts
    ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
-- What an event carries never changes either, but can be removed: outbox_change, event.erase.
CREATE TRIGGER outbox_events_refuse_content
    BEFORE UPDATE OF payload_json, headers, erased_at ON outbox_events FOR EACH STATEMENT
    WHEN (current_setting('outboxctl.erases', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION outbox_refuse_update();
-- History has no number until it is published once more, see outbox_change.
CREATE TRIGGER outbox_events_refuse_renumber
    BEFORE UPDATE OF seq ON outbox_events FOR EACH STATEMENT
    WHEN (current_setting('outboxctl.numbers_history', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_events_refuse_delete
    BEFORE DELETE ON outbox_events FOR EACH ROW
    WHEN (OLD.published_at IS NULL AND OLD.dead_at IS NULL)
    EXECUTE FUNCTION outbox_refuse_delete('the event is neither published nor dead');
CREATE TRIGGER outbox_events_refuse_truncate
    BEFORE TRUNCATE ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_truncate();
CREATE TRIGGER outbox_events_refuse_rekey
    BEFORE UPDATE OF ordering_key ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_refuse_update();
CREATE TRIGGER outbox_events_refuse_gap
    BEFORE DELETE ON outbox_events FOR EACH ROW
    WHEN (OLD.ordering_key IS NOT NULL AND OLD.published_at IS NULL AND OLD.passed_at IS NULL)
    EXECUTE FUNCTION outbox_refuse_delete('events of its ordering key wait for it');

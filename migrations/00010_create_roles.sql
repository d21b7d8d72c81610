-- Four roles to grant to logins. Roles belong to the cluster, not to this
-- database: an operator of another one must not become an operator
-- of this one. Rights are therefore given only to roles that are unused,
-- without rights in any database and without members. To any other role they are
-- given on request: `outboxctl migrate grants` prints the
-- statements, also for roles of your own. The same goes for a hosted cluster
-- that does not let us create roles. Neither is an error.

-- +goose Up

-- +goose StatementBegin
DO $$
DECLARE
    role text;
    ours text[] := '{}';
BEGIN
    FOREACH role IN ARRAY ARRAY['outbox_emitter', 'outbox_dispatcher', 'outbox_operator', 'outbox_viewer'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
                -- Waits for another database that is creating it, until that has granted to it.
                EXECUTE format('CREATE ROLE %I NOLOGIN', role);
            ELSE
                -- Changes nothing, but waits for another database that is about to grant to it.
                EXECUTE format('COMMENT ON ROLE %I IS %L', role,
                    (SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = role));
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN
                NULL;
        END;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role)
            OR EXISTS (SELECT FROM pg_shdepend AS d
                        WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = to_regrole(role) AND d.dbid <> 0)
            OR EXISTS (SELECT FROM pg_auth_members WHERE roleid = to_regrole(role) AND member <> (SELECT oid FROM pg_roles WHERE rolname = current_user));
        ours := ours || role;
        -- In public every role has it; a schema of one's own needs it said.
        IF NOT has_schema_privilege(role, current_schema(), 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), role);
        END IF;
    END LOOP;
    PERFORM set_config('outboxctl.roles', array_to_string(ours, ','), true);
END
$$;
-- +goose StatementEnd

-- Runs one GRANT … TO outbox_<role>, if this database gives its rights to that
-- role: as decided above, or because it already has rights on the events. Later
-- steps grant through it too; `migrate grants` reads the statements from there.
-- +goose StatementBegin
CREATE FUNCTION outbox_grant(statement text) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    role text := substring(statement FROM '^GRANT .* TO (outbox_(?:emitter|dispatcher|operator|viewer))$');
BEGIN
    IF role IS NULL THEN
        RAISE EXCEPTION 'not a grant to one of the outbox roles: %', statement USING ERRCODE = 'OX202';
    END IF;
    IF role = ANY (string_to_array(current_setting('outboxctl.roles', true), ','))
       OR EXISTS (SELECT FROM pg_shdepend AS d JOIN pg_roles AS r ON r.oid = d.refobjid
                   WHERE d.refclassid = 'pg_authid'::regclass AND r.rolname = role
                     AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                     AND d.classid = 'pg_class'::regclass AND d.objid = 'outbox_events'::regclass) THEN
        EXECUTE statement;
    END IF;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION outbox_grant(text) FROM PUBLIC;

-- Emitter: inserts, and reads nothing back. No created_at: the time of an event's row is not its writer's to choose.
-- Consumers are emitters too: they record what they did and could not do.
SELECT outbox_grant('GRANT INSERT (id, event_type, aggregate_type, aggregate_id, payload_json, namespace, tenant_id, dedupe_key, max_attempts, headers, ordering_key, deliver_at, next_attempt_at) ON outbox_events TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, text, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, uuid, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, bigint, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, integer, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit(text, text, smallint, jsonb, text, uuid, text, jsonb, timestamptz, jsonb, int, uuid, text, timestamptz) TO outbox_emitter');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_emit_many, outbox_first_time, outbox_consumer_failed, outbox_consumer_recovered, outbox_consumer_beat TO outbox_emitter');

-- Dispatcher: leases events, moves what may move, records deaths.
SELECT outbox_grant('GRANT SELECT, INSERT, UPDATE (seqs), DELETE ON outbox_leases TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_publishers TO outbox_dispatcher');
SELECT outbox_grant('GRANT UPDATE (published_at, attempt_count, last_error, next_attempt_at, dead_at, broker_message_id) ON outbox_events TO outbox_dispatcher');
SELECT outbox_grant('GRANT INSERT (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, headers, error_reason, error_message, attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at) ON outbox_dlq TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT, INSERT, UPDATE ON outbox_history TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_events, outbox_event_status, outbox_dlq, outbox_dlq_counts, outbox_pauses, outbox_consumers TO outbox_dispatcher');
-- For its metrics; an error may quote a payload.
SELECT outbox_grant('GRANT SELECT (consumer, state, subscription, first_at) ON outbox_consumer_failures TO outbox_dispatcher');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_claimable TO outbox_dispatcher');

-- Operator: reads everything, changes only through functions that write the audit row.
SELECT outbox_grant('GRANT SELECT ON outbox_events, outbox_event_status, outbox_dlq, outbox_dlq_counts, outbox_dlq_causes, outbox_audit, outbox_leases, outbox_publishers, outbox_pauses, outbox_consumer_failures, outbox_consumers, inbox_events, outbox_history TO outbox_operator');
-- The lease is the runner's alone.
SELECT outbox_grant('GRANT SELECT (id, action, state, author, db_user, note, filter, undoes, database, created_at, ready_at, total, left_out, summary, lease_until, runner, options, started_at, ended_at, stop_by, ended_why, watched) ON outbox_plans TO outbox_operator');
SELECT outbox_grant('GRANT SELECT (plan_id, chunk, size, summary, left_out, ids, event_ids, seen, digests, done, counts, outcomes) ON outbox_plan_chunks TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_change, outbox_correct, outbox_reveal, outbox_forget_samples, outbox_pause, outbox_resume, outbox_undo_pause, outbox_forget_event, outbox_forget_event_undone, outbox_cleanup, outbox_claimable TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_plan_create, outbox_plan_add, outbox_plan_ready, outbox_plan_abandon, outbox_plan_begin, outbox_plan_step, outbox_plan_beat, outbox_plan_end, outbox_plan_stop TO outbox_operator');

-- Viewer: everything except what events carry (payload_json, headers). A digest would let it guess at payloads.
SELECT outbox_grant('GRANT SELECT (id, event_type, aggregate_type, aggregate_id, created_at, published_at, attempt_count, last_error, seq, namespace, tenant_id, dedupe_key, max_attempts, next_attempt_at, dead_at, broker_message_id, ordering_key, passed_at, erased_at, deliver_at) ON outbox_events TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT (id, event_id, event_type, aggregate_type, aggregate_id, error_reason, error_message, attempt_count, failed_at, namespace, tenant_id, topic, fingerprint, event_created_at, state, state_changed_at, audit_id, corrected_by, erased_at) ON outbox_dlq TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT ON outbox_event_status, outbox_dlq_counts, outbox_dlq_causes, outbox_audit, outbox_leases, outbox_publishers, outbox_pauses, outbox_consumer_failures, outbox_consumers, inbox_events, outbox_history TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT (id, action, state, author, db_user, note, filter, undoes, database, created_at, ready_at, total, left_out, summary, lease_until, runner, options, started_at, ended_at, stop_by, ended_why, watched) ON outbox_plans TO outbox_viewer');
SELECT outbox_grant('GRANT SELECT (plan_id, chunk, size, summary, left_out, ids, event_ids, seen, done, counts, outcomes) ON outbox_plan_chunks TO outbox_viewer');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_claimable TO outbox_viewer');

-- The catalogue is no secret: an emitter may look up what an event type needs.
SELECT outbox_grant('GRANT SELECT ON outbox_event_types, outbox_catalogue TO outbox_emitter');
-- Who may look at the tables may also ask which schema version they have.
SELECT outbox_grant('GRANT SELECT ON outbox_event_types, outbox_catalogue, outbox_schema_version TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_event_types, outbox_catalogue, outbox_schema_version TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_event_types, outbox_catalogue, outbox_schema_version TO outbox_viewer');

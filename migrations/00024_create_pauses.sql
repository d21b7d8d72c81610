-- What operators have paused: publishers leave events of a paused topic, type, tenant or namespace where they are, uncharged,
-- until it is resumed or ends by itself. Publishers read the table twice a second; it is written by the functions
-- below alone, each with its audit row. A refusal is OX300, a malformed argument.

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

CREATE TABLE outbox_pauses (
    kind     text        NOT NULL
        CONSTRAINT outbox_pauses_kind_check CHECK (kind IN ('topic', 'type', 'tenant', 'namespace')),
    value    text        NOT NULL
        CONSTRAINT outbox_pauses_value_check CHECK (octet_length(value) BETWEEN 1 AND 255),
    actor    text        NOT NULL,
    note     text,
    at       timestamptz NOT NULL DEFAULT now(),
    -- When it ends by itself; NULL: when it is resumed.
    until    timestamptz,
    -- The audit row of whoever set it so.
    audit_id bigint,
    PRIMARY KEY (kind, value)
);

-- Pauses, or gives a pause another end and another note; the audit row keeps the pause of before. Pauses that have ended go.
-- The functions below change one after the other, so that what each finds is what it changes; publishers only read.
--   paused · extended
-- +goose StatementBegin
CREATE FUNCTION outbox_pause(kind text, value text, seconds float8, actor text, note text DEFAULT NULL, detail jsonb DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    ends   CONSTANT timestamptz := now() + seconds * interval '1 second';
    before jsonb;
    audit  bigint;
BEGIN
    IF coalesce(kind, '') NOT IN ('topic', 'type', 'tenant', 'namespace') OR coalesce(value, '') = '' OR octet_length(value) > 255 OR seconds <= 0 THEN
        RAISE EXCEPTION 'a pause has a kind (topic, type, tenant, namespace), a value of 1 to 255 bytes and a positive length'
            USING ERRCODE = 'OX300', COLUMN = 'kind';
    END IF;
    LOCK TABLE @schema@.outbox_pauses IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM @schema@.outbox_pauses AS p WHERE p.until <= now();
    SELECT to_jsonb(p) INTO before FROM @schema@.outbox_pauses AS p WHERE p.kind = kind AND p.value = value;
    audit := @schema@.outbox_audit_change(text 'pause', actor, note,
        coalesce(detail, '{}') || jsonb_build_object('kind', kind, 'value', value, 'until', ends, 'before', before), '{}'::uuid[], bigint '1');
    INSERT INTO @schema@.outbox_pauses AS p (kind, value, actor, note, until, audit_id)
    VALUES (kind, value, actor, nullif(btrim(note), ''), ends, audit)
        ON CONFLICT ON CONSTRAINT outbox_pauses_pkey DO UPDATE
            SET actor = excluded.actor, note = excluded.note, until = excluded.until, audit_id = excluded.audit_id;
    RETURN CASE WHEN before IS NULL THEN 'paused' ELSE 'extended' END;
END
$$;
-- +goose StatementEnd

-- Lifts a pause; the audit row keeps it.
--   resumed · not_paused
-- +goose StatementBegin
CREATE FUNCTION outbox_resume(kind text, value text, actor text, note text DEFAULT NULL, detail jsonb DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    before jsonb;
BEGIN
    LOCK TABLE @schema@.outbox_pauses IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM @schema@.outbox_pauses AS p WHERE p.kind = kind AND p.value = value AND (p.until IS NULL OR p.until > now())
    RETURNING to_jsonb(p) INTO before;
    IF NOT FOUND THEN
        RETURN 'not_paused';
    END IF;
    PERFORM @schema@.outbox_audit_change(text 'resume', actor, note,
        coalesce(detail, '{}') || jsonb_build_object('kind', kind, 'value', value) || jsonb_build_object('before', before), '{}'::uuid[], bigint '1');
    RETURN 'resumed';
END
$$;
-- +goose StatementEnd

-- What taking back the pause or resume of an audit row would come to, with the pause there is, if any, and the one there was
-- before, unless it has ended. A pause is as the audit row left it while it names that row; what was resumed, while nobody
-- paused or resumed it since.
--   paused (again, as before) · resumed · not_paused · ended · changed · no row: the audit row is of neither
-- +goose StatementBegin
CREATE FUNCTION outbox_pause_undone(audit bigint) RETURNS TABLE (outcome text, kind text, value text, present jsonb, before jsonb)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT CASE WHEN a.action = 'pause' AND p.kind IS NULL THEN 'not_paused'
                WHEN a.action = 'pause' AND p.audit_id IS DISTINCT FROM coalesce((a.detail ->> 'left')::bigint, a.id) THEN 'changed'
                WHEN a.action = 'resume' AND (p.kind IS NOT NULL OR EXISTS (
                     SELECT FROM @schema@.outbox_audit AS l
                      WHERE l.id > a.id AND l.action IN ('pause', 'resume')
                        AND l.detail ->> 'kind' = a.detail ->> 'kind' AND l.detail ->> 'value' = a.detail ->> 'value')) THEN 'changed'
                WHEN b.kind IS NOT NULL THEN 'paused'
                WHEN a.action = 'pause' THEN 'resumed'
                ELSE 'ended'
           END, a.detail ->> 'kind', a.detail ->> 'value', to_jsonb(p), to_jsonb(b)
      FROM @schema@.outbox_audit AS a
      LEFT JOIN @schema@.outbox_pauses AS p
             ON p.kind = a.detail ->> 'kind' AND p.value = a.detail ->> 'value' AND (p.until IS NULL OR p.until > now())
      LEFT JOIN LATERAL jsonb_populate_record(NULL::@schema@.outbox_pauses, nullif(a.detail -> 'before', 'null')) AS b
             ON b.kind IS NOT NULL AND (b.until IS NULL OR b.until > now())
     WHERE a.id = audit AND a.action IN ('pause', 'resume')
$$;
-- +goose StatementEnd

-- Takes back the pause or resume of an audit row where nothing was changed since: the pause there was before is there again
-- as it was, or there is none. The outcomes are those of outbox_pause_undone.
-- +goose StatementBegin
CREATE FUNCTION outbox_undo_pause(audit bigint, actor text, note text DEFAULT NULL, detail jsonb DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    u record;
BEGIN
    LOCK TABLE @schema@.outbox_pauses IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO u FROM @schema@.outbox_pause_undone(audit);
    IF u.outcome IN ('paused', 'resumed') THEN
        PERFORM @schema@.outbox_audit_change(CASE u.outcome WHEN 'paused' THEN text 'pause' ELSE text 'resume' END, actor, note,
            coalesce(detail, '{}') || jsonb_build_object('kind', u.kind, 'value', u.value) || jsonb_build_object('undoes', audit)
                || jsonb_build_object('until', u.before -> 'until', 'before', u.present, 'left', u.before -> 'audit_id'), '{}'::uuid[], bigint '1');
        DELETE FROM @schema@.outbox_pauses AS p WHERE p.kind = u.kind AND p.value = u.value;
        INSERT INTO @schema@.outbox_pauses
        SELECT b.* FROM jsonb_populate_record(NULL::@schema@.outbox_pauses, u.before) AS b WHERE u.outcome = 'paused';
    END IF;
    RETURN u.outcome;
END
$$;
-- +goose StatementEnd

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_pause(text, text, float8, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_resume(text, text, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_undo_pause(bigint, text, text, jsonb) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_pause(text, text, float8, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_resume(text, text, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_undo_pause(bigint, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_pauses TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_pauses TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_pauses TO outbox_viewer');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_undo_pause(bigint, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_pause_undone(bigint);
DROP FUNCTION IF EXISTS outbox_resume(text, text, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_pause(text, text, float8, text, text, jsonb);
DROP TABLE IF EXISTS outbox_pauses;

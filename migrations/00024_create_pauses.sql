-- What operators have paused: publishers leave events of a paused topic, type, tenant or namespace where they are, uncharged,
-- until the pause is lifted or ends by itself. Publishers read the table twice a second; it is written by the functions
-- below alone, each with its audit row. A refusal is OX300, a malformed argument.

-- +goose Up
SET LOCAL check_function_bodies = off; -- see 00009

CREATE TABLE outbox_pauses (
    kind   text        NOT NULL
        CONSTRAINT outbox_pauses_kind_check CHECK (kind IN ('topic', 'type', 'tenant', 'namespace')),
    value  text        NOT NULL
        CONSTRAINT outbox_pauses_value_check CHECK (octet_length(value) BETWEEN 1 AND 255),
    actor  text        NOT NULL,
    note   text,
    at     timestamptz NOT NULL DEFAULT now(),
    -- When it ends by itself; NULL: when it is lifted.
    until  timestamptz,
    PRIMARY KEY (kind, value)
);

-- Pauses, or gives a pause another end and another note. Pauses that have ended go.
--   paused · extended
-- +goose StatementBegin
CREATE FUNCTION outbox_pause(kind text, value text, seconds float8, actor text, note text DEFAULT NULL, detail jsonb DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
DECLARE
    ends   CONSTANT timestamptz := now() + seconds * interval '1 second';
    before boolean;
BEGIN
    IF coalesce(kind, '') NOT IN ('topic', 'type', 'tenant', 'namespace') OR coalesce(value, '') = '' OR octet_length(value) > 255 OR seconds <= 0 THEN
        RAISE EXCEPTION 'a pause has a kind (topic, type, tenant, namespace), a value of 1 to 255 bytes and a positive length'
            USING ERRCODE = 'OX300', COLUMN = 'kind';
    END IF;
    PERFORM @schema@.outbox_audit_change(text 'pause', actor, note,
        coalesce(detail, '{}') || jsonb_build_object('kind', kind, 'value', value, 'until', ends), '{}'::uuid[], bigint '1');
    DELETE FROM @schema@.outbox_pauses AS p WHERE p.until <= now();
    SELECT true INTO before FROM @schema@.outbox_pauses AS p WHERE p.kind = kind AND p.value = value;
    INSERT INTO @schema@.outbox_pauses AS p (kind, value, actor, note, until)
    VALUES (kind, value, actor, nullif(btrim(note), ''), ends)
        ON CONFLICT ON CONSTRAINT outbox_pauses_pkey DO UPDATE SET actor = excluded.actor, note = excluded.note, until = excluded.until;
    RETURN CASE WHEN before THEN 'extended' ELSE 'paused' END;
END
$$;
-- +goose StatementEnd

-- Lifts a pause.
--   resumed · not_paused
-- +goose StatementBegin
CREATE FUNCTION outbox_resume(kind text, value text, actor text, note text DEFAULT NULL, detail jsonb DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_variable
BEGIN
    DELETE FROM @schema@.outbox_pauses AS p WHERE p.kind = kind AND p.value = value AND (p.until IS NULL OR p.until > now());
    IF NOT FOUND THEN
        RETURN 'not_paused';
    END IF;
    PERFORM @schema@.outbox_audit_change(text 'resume', actor, note,
        coalesce(detail, '{}') || jsonb_build_object('kind', kind, 'value', value), '{}'::uuid[], bigint '1');
    RETURN 'resumed';
END
$$;
-- +goose StatementEnd

SELECT outbox_qualify_functions();
REVOKE ALL ON FUNCTION outbox_pause(text, text, float8, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION outbox_resume(text, text, text, text, jsonb) FROM PUBLIC;
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_pause(text, text, float8, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT EXECUTE ON FUNCTION outbox_resume(text, text, text, text, jsonb) TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_pauses TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_pauses TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_pauses TO outbox_viewer');

-- +goose Down
DROP FUNCTION IF EXISTS outbox_resume(text, text, text, text, jsonb);
DROP FUNCTION IF EXISTS outbox_pause(text, text, float8, text, text, jsonb);
DROP TABLE IF EXISTS outbox_pauses;

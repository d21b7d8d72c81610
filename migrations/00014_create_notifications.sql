-- Where the example consumer writes. A product may well have a table of that
-- name; it is left alone, and the example consumer then says what it misses.

-- +goose Up

-- +goose StatementBegin
DO $$
BEGIN
    IF to_regclass('notifications') IS NOT NULL THEN
        RAISE NOTICE 'table notifications exists and is left as it is';
        RETURN;
    END IF;
    -- event_id is not unique: the inbox keeps effects from doubling, and a
    -- constraint here would only hide it if it did not.
    CREATE TABLE notifications (
        id         uuid        PRIMARY KEY,
        type       text        NOT NULL,
        audience   text        NOT NULL CHECK (audience IN ('admin', 'store')),
        store_id   uuid        NOT NULL,
        license_id uuid        NOT NULL,
        status     text        NOT NULL,
        reason     text,
        message    text        NOT NULL,
        event_id   uuid        NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        read_at    timestamptz
    );
    CREATE INDEX notifications_event_id_idx ON notifications (event_id);
    COMMENT ON TABLE notifications IS 'created by outboxctl for its example consumer';
END
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $$
BEGIN
    IF obj_description(to_regclass('notifications'), 'pg_class') = 'created by outboxctl for its example consumer' THEN
        DROP TABLE notifications;
    END IF;
END
$$;
-- +goose StatementEnd

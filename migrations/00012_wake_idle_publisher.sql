-- A hint that makes an idle publisher look before its poll interval is over.
-- NOTIFY serialises commits, so it must not be paid for while the publisher is
-- busy: an idle publisher holds an advisory lock exclusively, and a statement
-- that inserts notifies only when it cannot share that lock. Asking costs two
-- calls into shared memory, once per statement, never per row. The lock is
-- given back at once, so a long transaction keeps no publisher from becoming idle.
--
-- Nothing depends on the hint. ALTER TABLE outbox_events DISABLE TRIGGER
-- outbox_events_wake switches it off; publishers then poll.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION outbox_wake() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    IF pg_try_advisory_lock_shared(1870034018, 1) THEN
        PERFORM pg_advisory_unlock_shared(1870034018, 1);
    ELSE
        PERFORM pg_notify('outbox_wake', '');
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER outbox_events_wake
    AFTER INSERT ON outbox_events FOR EACH STATEMENT EXECUTE FUNCTION outbox_wake();

-- +goose Down
DROP TRIGGER IF EXISTS outbox_events_wake ON outbox_events;
DROP FUNCTION IF EXISTS outbox_wake();

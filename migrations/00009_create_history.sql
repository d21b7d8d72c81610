-- What became of events, for the charts of the page: a row per hour, topic and event type, to which publishers add once a
-- minute. Nothing in the delivery of events depends on it. Minutes are kept for a day, hours for 30 days.

-- +goose Up

CREATE TABLE outbox_history (
    at         timestamptz NOT NULL,
    -- An empty type is all types of the topic, an empty topic all topics: a chart reads one row per hour.
    topic      text COLLATE "C" NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    -- Of the hour: came in, went out, failed, died, and how many of those that went out took as long as each step of
    -- latency. Zeros at the end are left out.
    figures    integer[]   NOT NULL,
    -- Of each minute: sixty of the first figure, then sixty of the next, which compresses well.
    minutes    integer[],
    CONSTRAINT outbox_history_pkey PRIMARY KEY (at, topic, event_type)
) WITH (fillfactor = 70);

-- Forgets minutes after a day and hours after 30 days, at most max_rows, and returns how many rows it changed. These are
-- figures and nobody's data: no audit row.
-- +goose StatementBegin
CREATE FUNCTION outbox_cleanup_history(max_rows int) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    deleted  bigint;
    narrowed bigint;
BEGIN
    DELETE FROM @schema@.outbox_history AS h
     WHERE h.ctid = ANY (ARRAY(
           SELECT o.ctid FROM @schema@.outbox_history AS o WHERE o.at < now() - interval '30 days' LIMIT max_rows));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    UPDATE @schema@.outbox_history AS h SET minutes = NULL
     WHERE h.ctid = ANY (ARRAY(
           SELECT m.ctid FROM @schema@.outbox_history AS m
            WHERE m.at < now() - interval '26 hours' AND m.minutes IS NOT NULL LIMIT max_rows));
    GET DIAGNOSTICS narrowed = ROW_COUNT;
    RETURN deleted + narrowed;
END
$$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION outbox_cleanup_history FROM PUBLIC;

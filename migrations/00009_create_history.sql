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

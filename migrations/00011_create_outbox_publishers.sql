-- Who publishes: one row per running publisher, written every few seconds,
-- removed on a clean exit. id is the owner of the publisher's leases, so a
-- lease leads to the host and process that holds it. Nothing in the delivery
-- of events depends on this table.

-- +goose Up
CREATE TABLE outbox_publishers (
    id           uuid        PRIMARY KEY,
    host         text        NOT NULL,
    pid          integer     NOT NULL,
    version      text        NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    -- {"inFlight": n, "inFlightBytes": n, "published": n,
    --  "topics": [{"topic", "state", "since", "code"?, "error"?}]}
    state        jsonb       NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

SELECT outbox_grant('GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_publishers TO outbox_dispatcher');
SELECT outbox_grant('GRANT SELECT ON outbox_publishers TO outbox_operator');
SELECT outbox_grant('GRANT SELECT ON outbox_publishers TO outbox_viewer');

-- +goose Down
DROP TABLE IF EXISTS outbox_publishers;

-- Who changed what, when, why and how many: written in the same transaction
-- as the change. db_user is the login, which a SET ROLE does not hide.

-- +goose Up
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

-- +goose Down
DROP TABLE IF EXISTS outbox_audit;

package torture

// truthSchema adds to the outbox's database what the harness knows it by: the aggregates producers lock, the ledger
// written beside each event, and a trace of every change of an outbox row, kept by a trigger in the same transaction so
// that it cannot say anything that did not happen.
const truthSchema = `
CREATE TABLE torture_aggregates (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 0);
INSERT INTO torture_aggregates SELECT generate_series(0, 999);

CREATE TABLE torture_ledger (tx text NOT NULL, event_id uuid, line text, data text);

-- Events of the command line have no ledger row of their own: they are alone in their transaction.
CREATE FUNCTION torture_line() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    INSERT INTO torture_ledger (tx, event_id, line, data)
    VALUES (NEW.headers->>'torture-tx', NEW.id, NEW.headers->>'torture-line', (NEW.payload_json->'data')::text);
    RETURN NULL;
END $$;
CREATE TRIGGER torture_line AFTER INSERT ON outbox_events FOR EACH ROW
    WHEN (NEW.headers ? 'torture-line') EXECUTE FUNCTION torture_line();

CREATE TABLE torture_changes (
    seq bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL, txid bigint NOT NULL, event_id uuid NOT NULL,
    app text NOT NULL, deleted boolean NOT NULL, before jsonb NOT NULL, after jsonb
);
CREATE FUNCTION torture_state(e outbox_events) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('by', e.locked_by, 'until', e.locked_until, 'attempts', e.attempt_count, 'error', e.last_error,
        'published', e.published_at, 'dead', e.dead_at, 'next', e.next_attempt_at, 'message', e.broker_message_id, 'passed', e.passed_at)
$$;
CREATE FUNCTION torture_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    INSERT INTO torture_changes (at, txid, event_id, app, deleted, before, after)
    VALUES (clock_timestamp(), txid_current(), OLD.id, current_setting('application_name'), TG_OP = 'DELETE',
            torture_state(OLD), CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE torture_state(NEW) END);
    RETURN NULL;
END $$;
CREATE TRIGGER torture_change AFTER UPDATE OR DELETE ON outbox_events FOR EACH ROW EXECUTE FUNCTION torture_change();

CREATE TABLE torture_removed (removed_at timestamptz NOT NULL, LIKE outbox_events);
CREATE FUNCTION torture_remove() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    INSERT INTO torture_removed SELECT clock_timestamp(), OLD.*;
    RETURN NULL;
END $$;
CREATE TRIGGER torture_remove AFTER DELETE ON outbox_events FOR EACH ROW EXECUTE FUNCTION torture_remove();`

// effectSchema is for the database that no fault touches, beside the example consumer's own tables.
const effectSchema = `
CREATE TABLE torture_runs (at timestamptz NOT NULL DEFAULT clock_timestamp(), consumer text NOT NULL, event_id uuid NOT NULL);
CREATE TABLE torture_effects (consumer text NOT NULL, event_id uuid NOT NULL, PRIMARY KEY (consumer, event_id));`

// The worker counts its runs and applies its effect; the effect is idempotent, as every consumer's must be that Redis
// alone guards.
const (
	recordRun   = `INSERT INTO torture_runs (consumer, event_id) VALUES ($1, $2)`
	applyEffect = `INSERT INTO torture_effects (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`
)

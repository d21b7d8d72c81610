package torture

// truthSchema adds to the outbox's database what the harness knows it by: the aggregates producers
// lock, the ledger written beside each event, and a trace of every change of an outbox row and of
// the leases that name it, kept by triggers in the same transaction so that it cannot say anything
// that did not happen.
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

-- A change is of a row, with its state before and after, or of a lease: whose it is from then on, or nobody's.
CREATE TABLE torture_changes (
    seq bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL DEFAULT clock_timestamp(), txid bigint NOT NULL DEFAULT txid_current(),
    event_id uuid NOT NULL, app text NOT NULL DEFAULT current_setting('application_name'), deleted boolean NOT NULL DEFAULT false,
    before jsonb, after jsonb, lease jsonb
);
-- The objects are a State and a Row of the history.
CREATE FUNCTION torture_state(e outbox_events) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('attempts', e.attempt_count, 'lastError', e.last_error,
        'published', e.published_at, 'dead', e.dead_at, 'next', e.next_attempt_at, 'messageId', e.broker_message_id, 'passed', e.passed_at)
$$;
CREATE FUNCTION torture_row(e outbox_events) RETURNS jsonb LANGUAGE sql IMMUTABLE SET search_path = public AS $$
    SELECT jsonb_build_object('eventId', e.id, 'seq', e.seq, 'type', e.event_type, 'aggregateType', e.aggregate_type,
        'aggregateId', e.aggregate_id, 'payload', e.payload_json::text, 'headers', e.headers, 'namespace', e.namespace,
        'tenantId', e.tenant_id, 'dedupeKey', e.dedupe_key, 'orderingKey', e.ordering_key, 'state', torture_state(e),
        'createdAt', rtrim(rtrim(to_char(e.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.') || 'Z')
$$;
CREATE FUNCTION torture_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    INSERT INTO torture_changes (event_id, deleted, before, after)
    VALUES (OLD.id, TG_OP = 'DELETE', torture_state(OLD), CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE torture_state(NEW) END);
    RETURN NULL;
END $$;
CREATE TRIGGER torture_change AFTER UPDATE OR DELETE ON outbox_events FOR EACH ROW EXECUTE FUNCTION torture_change();

CREATE TABLE torture_leased (lease bigint NOT NULL, seq bigint NOT NULL, event_id uuid NOT NULL, PRIMARY KEY (lease, seq));
CREATE FUNCTION torture_lease() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        WITH named AS (
            INSERT INTO torture_leased
            SELECT NEW.id, e.seq, e.id FROM unnest(NEW.seqs) AS r
             CROSS JOIN LATERAL (SELECT seq, id FROM outbox_events
                                  WHERE seq >= lower(r) AND seq < upper(r) AND published_at IS NULL AND dead_at IS NULL
                                  ORDER BY seq) AS e
            RETURNING event_id)
        INSERT INTO torture_changes (event_id, lease) SELECT event_id, jsonb_build_object('by', NEW.owner, 'until', NEW.until) FROM named;
        RETURN NULL;
    END IF;
    WITH freed AS (
        DELETE FROM torture_leased AS l WHERE l.lease = OLD.id AND NOT (TG_OP = 'UPDATE' AND NEW.seqs @> l.seq) RETURNING event_id)
    INSERT INTO torture_changes (event_id, lease) SELECT event_id, '{}' FROM freed;
    RETURN NULL;
END $$;
CREATE TRIGGER torture_lease AFTER INSERT OR UPDATE OR DELETE ON outbox_leases FOR EACH ROW EXECUTE FUNCTION torture_lease();

CREATE TABLE torture_removed (event_type event_type_enum NOT NULL, body jsonb NOT NULL);
CREATE FUNCTION torture_remove() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    INSERT INTO torture_removed VALUES (OLD.event_type, torture_row(OLD) || jsonb_build_object('removedAt', clock_timestamp()));
    RETURN NULL;
END $$;
CREATE TRIGGER torture_remove AFTER DELETE ON outbox_events FOR EACH ROW EXECUTE FUNCTION torture_remove();`

// effectSchema is for the database that no fault touches, beside the example consumer's own tables.
const effectSchema = `
CREATE TABLE torture_runs (at timestamptz NOT NULL DEFAULT clock_timestamp(), consumer text NOT NULL, event_id uuid NOT NULL);
CREATE TABLE torture_effects (consumer text NOT NULL, event_id uuid NOT NULL, PRIMARY KEY (consumer, event_id));`

// The worker counts its runs and applies its effect; the effect is idempotent, as every consumer's
// must be that Redis alone guards.
const (
	recordRun   = `INSERT INTO torture_runs (consumer, event_id) VALUES ($1, $2)`
	applyEffect = `INSERT INTO torture_effects (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`
)

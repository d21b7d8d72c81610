package cmd_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

const (
	dooritoFile  = "../testdata/catalogue/doorito.yaml"
	miniChatFile = "../testdata/catalogue/mini-chat.yaml"
)

// stranger is a user who starts with an empty database and a catalogue file.
func stranger(t *testing.T) *publishRig {
	t.Helper()
	r := publishRigOn(t, outboxtest.EmptyDB(t))
	r.lines("migrate", "--types", "text")
	return r
}

// sql runs a statement and returns its error.
func (r *publishRig) sql(text string, args ...any) error {
	_, err := r.db.Pool.Exec(r.t.Context(), text, args...)
	return err
}

// attributesOf finds the message of an event.
func (r *publishRig) attributesOf(id string) map[string]string {
	r.t.Helper()
	for _, m := range r.pubsub.Stored() {
		if m.Attributes["event_id"] == id {
			return m.Attributes
		}
	}
	r.t.Fatalf("event %s was not published", id)
	return nil
}

// edited is a copy of a catalogue file, beside the schemas, in which one text stands for another.
func edited(t *testing.T, file, old, with string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), old)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "schemas"), os.DirFS("../testdata/catalogue/schemas")))
	copied := filepath.Join(dir, filepath.Base(file))
	require.NoError(t, os.WriteFile(copied, []byte(strings.Replace(string(text), old, with, 1)), 0o600))
	return copied
}

// healthy asks doctor, who must find nothing that fails but Redis, which is no part of the rig.
func (r *publishRig) healthy() {
	r.t.Helper()
	_, out, talk := r.run("doctor", "-o", "json")
	var findings []struct{ Area, Check, Level, Message string }
	require.NoError(r.t, json.Unmarshal([]byte(out), &findings), out+talk)
	require.NotEmpty(r.t, findings)
	for _, f := range findings {
		require.False(r.t, f.Level == "fail" && f.Area != "redis", "%+v", f)
	}
}

// Doorito: string types, string ids, a schema, emitted by SQL, Go and the command line; one bad event found and corrected.
func TestDooritosEvents(t *testing.T) {
	t.Parallel()
	r := stranger(t)
	r.lines("registry", "check", dooritoFile)
	require.ErrorContains(t, r.sql(`SELECT outbox_emit('order.ready', 'order', '42', '{}')`), "unknown event type 'order.ready'")
	r.lines("registry", "apply", dooritoFile, "--yes")
	require.Subset(t, r.lines("topic", "ensure", "-o", "id"), []string{"doorito-orders", "doorito-files"})

	require.NoError(t, r.sql(`SELECT outbox_emit('order.ready', 'order', 'ord-42', '{"orderId": "ord-42", "door": 7}')`))
	require.ErrorContains(t, r.sql(`SELECT outbox_emit('order.ready', 'UploadFile', '42', '{}')`), "belongs to aggregate order")
	shell := r.lines("emit", "--type", "file.stored", "--aggregate-id", "f/1", "--data", `["any", "thing"]`, "--namespace", "uploads", "--dedupe-key", "f/1")[0]
	types, err := registry.File(dooritoFile)
	require.NoError(t, err)
	emitter := emit.New(types)
	require.NoError(t, pgx.BeginFunc(t.Context(), r.db.Pool, func(tx pgx.Tx) error {
		_, err := emitter.Emit(t.Context(), tx, emit.Event{Type: "order.cancelled", AggregateID: "ord-43", Data: map[string]any{"anything": true}})
		return err
	}))
	require.ErrorContains(t, emitter.Validate(emit.Event{Type: "upload.stored", AggregateID: "1", Data: 1}), "not a known event type", "a former name is not emitted")

	// What SQL does not check the publisher finds: fields inside the payload.
	require.NoError(t, r.sql(`SELECT outbox_emit('order.ready', 'order', 'ord-44', '{"orderId": "ord-44", "door": "seven"}')`))
	require.NoError(t, r.sql(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) SELECT i, 'upload.stored', 'UploadFile', 'f/0',
		jsonb_build_object('version', 1, 'eventId', i, 'occurredAt', '2026-01-01T00:00:00Z', 'data', 1) FROM outbox_uuid_v7() AS i`), "written before it was renamed")
	require.NoError(t, r.sql(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) VALUES (outbox_uuid_v7(), 'order.raedy', 'order', '1', '{}')`))
	require.Subset(t, r.lines("stats", "--by", "type", "-o", "id"), []string{"order.ready", "order.raedy", "file.stored", "upload.stored"})
	require.Subset(t, r.lines("stats", "--by", "namespace", "-o", "id"), []string{"default", "uploads"})
	code, _, talk := r.run("publish", "--once")
	require.Equal(t, cli.ExitPartial, code, talk)
	require.Equal(t, 4, r.published())
	attributes := r.attributesOf(shell)
	require.Equal(t, []string{"uploads", "f/1", "UploadFile", "f/1"},
		[]string{attributes["namespace"], attributes["dedupe_key"], attributes["aggregate_type"], attributes["aggregate_id"]})
	require.ElementsMatch(t, []string{"invalid_payload", "unknown_event_type"}, r.lines("dlq", "list", "--jq", ".[].reason"))

	// The bad one is corrected and emitted again; the typo becomes a type and is replayed.
	_, exported, _ := r.run("dlq", "export", "--type", "order.ready")
	fixed := filepath.Join(t.TempDir(), "event.json")
	require.NoError(t, os.WriteFile(fixed, []byte(`{"orderId":"ord-44","door":7}`), 0o600))
	require.Contains(t, exported, "ord-44")
	r.lines("emit", "--type", "order.ready", "--aggregate-id", "ord-44", "--data", "@"+fixed)
	r.lines("dlq", "discard", "--type", "order.ready", "--yes")
	r.lines("registry", "apply", edited(t, dooritoFile, "  order.cancelled:", "  order.raedy: {topic: orders, aggregate: order, envelope: none}\n  order.cancelled:"))
	r.lines("dlq", "replay", "--type", "order.raedy", "--yes")
	r.lines("publish", "--once")
	require.Equal(t, 6, r.published())
	r.healthy()
	require.Empty(t, r.lines("dlq", "list", "-o", "id"))
	require.NoError(t, r.sql(`UPDATE outbox_events SET published_at = now() - interval '40 days' WHERE published_at IS NOT NULL`))
	r.lines("cleanup", "--older-than", "30d")
	require.Zero(t, r.published())
}

// ModKit: opaque payloads in a namespace of their own, without envelope and aggregate, as CloudEvents; beside Doorito's.
func TestModKitsEvents(t *testing.T) {
	t.Parallel()
	r := stranger(t)
	r.lines("registry", "apply", miniChatFile, "--yes")
	r.lines("registry", "apply", dooritoFile, "--yes")
	require.Contains(t, strings.Join(r.lines("registry", "export", "database"), " "), "name: doorito")
	r.lines("topic", "ensure", "-o", "id")
	id := r.lines("emit", "--type", "usage.turn_finalized", "--namespace", "mini-chat", "--data", `{"tokens": 12}`, "--max-attempts", "3")[0]
	code, _, talk := r.run("emit", "--type", "usage.turn_finalized", "--namespace", "elsewhere", "--data", `{}`)
	require.Equal(t, cli.ExitUsage, code, talk)
	code, _, talk = r.run("emit", "--type", "usage.turn_finalized", "--namespace", "mini-chat", "--data", `{}`, "--occurred-at", "2026-01-01T00:00:00Z")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, talk, "occurredAt has no place in an event without an envelope")
	require.NoError(t, r.sql(`SELECT outbox_emit('usage.turn_finalized', NULL, ''::text, '[1, 2]', namespace => 'mini-chat')`))
	types, err := registry.File(miniChatFile)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), r.db.Pool, func(tx pgx.Tx) error {
		_, err := emit.New(types).Emit(t.Context(), tx, emit.Event{Type: "usage.turn_finalized", Namespace: "mini-chat", Data: "free"})
		return err
	}))
	require.NoError(t, r.sql(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, namespace)
		VALUES (outbox_uuid_v7(), 'usage.turn_started', '', '', '{}', 'mini-chat')`), "an unknown type")
	require.Equal(t, []string{"mini-chat"}, r.lines("stats", "--by", "namespace", "-o", "id"))
	code, _, talk = r.run("publish", "--once")
	require.Equal(t, cli.ExitPartial, code, talk)
	require.Equal(t, 3, r.published())
	require.Equal(t, []string{"unknown_event_type"}, r.lines("dlq", "list", "--namespace", "mini-chat", "--jq", ".[].reason"))
	r.lines("registry", "apply", edited(t, miniChatFile, "types:\n", "types:\n  usage.turn_started: {topic: usage}\n"))
	r.lines("dlq", "replay", "--type", "usage.turn_started", "--yes")
	r.lines("publish", "--once")
	require.Equal(t, 4, r.published())
	r.healthy()
	for _, m := range r.pubsub.Stored() {
		if m.Attributes["event_id"] == id {
			require.JSONEq(t, `{"tokens": 12}`, string(m.Data))
		}
	}
	attributes := r.attributesOf(id)
	require.Equal(t, []string{"mini-chat", "1.0", "//mini-chat", "usage.turn_finalized", id}, []string{
		attributes["namespace"], attributes["ce-specversion"], attributes["ce-source"], attributes["ce-type"], attributes["ce-id"],
	})
	require.NotContains(t, attributes, "aggregate_type")
	require.Equal(t, 3, r.count(`SELECT max_attempts FROM outbox_events WHERE id = $1::text::uuid`, id))
	require.NoError(t, r.sql(`UPDATE outbox_events SET published_at = now() - interval '40 days'`))
	r.lines("cleanup", "--older-than", "30d")
	require.Zero(t, r.published())
}

// While an old publisher runs beside the recorded catalogue nothing dies: it leaves what it does not know, and who follows
// the database takes the new types within seconds.
func TestOldAndNewPublishersSideBySide(t *testing.T) {
	t.Parallel()
	r := stranger(t)
	r.lines("registry", "apply", dooritoFile, "--yes")
	r.lines("topic", "ensure", "-o", "id")
	newer := edited(t, dooritoFile, "  order.cancelled: {topic: orders, aggregate: order}\n",
		"  order.cancelled: {topic: orders, aggregate: order, schema: any}\n  order.lost: {topic: orders, aggregate: order}\n")

	old := r.start("--catalogue", dooritoFile)
	eventually(t, "it runs", func() bool { return r.count(`SELECT count(*) FROM outbox_publishers`) == 1 })
	r.lines("registry", "apply", newer)
	eventually(t, "it has seen the new revision", func() bool {
		return r.count(`SELECT count(*) FROM outbox_publishers WHERE state @> '{"catalogue": {"revision": 2, "unknown": {"*": ["order.lost"]}}}'`) == 1
	})
	require.NoError(t, r.sql(`SELECT outbox_emit('order.lost', 'order', '1', '{}')`))
	require.NoError(t, r.sql(`SELECT outbox_emit('order.cancelled', 'order', '2', '[1]')`), "which only the new version allows")
	require.NoError(t, r.sql(`SELECT outbox_emit('file.stored', 'UploadFile', '3', '1')`))
	r.settled(1)
	eventually(t, "it stands down", func() bool {
		return r.count(`SELECT count(*) FROM outbox_publishers WHERE state @> '{"catalogue": {"stoodDown": {"default": ["order.cancelled"]}}}'`) == 1
	})
	code, out, _ := r.run("stats", "-o", "json")
	require.Equal(t, cli.ExitOK, code)
	var report struct {
		Stranded []struct {
			EventType string
			Events    int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Len(t, report.Stranded, 2)
	for _, name := range []string{"order.lost", "order.cancelled"} {
		id := r.lines("event", "list", "--type", name, "-o", "id")
		require.Len(t, id, 1)
		why := strings.Join(r.lines("why", id[0]), " ")
		require.Contains(t, why, "waits because no running publisher takes its type")
		require.Contains(t, why, "outboxctl registry show "+name+" --catalogue database")
	}

	current := r.start()
	r.settled(3)
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_dlq`))
	old.end()
	require.Contains(t, old.output(), `"types":["default order.cancelled"]`)

	// The one that follows the database takes a type that is applied while it runs.
	newest := edited(t, newer, "  order.lost:", "  order.found: {topic: orders, aggregate: order}\n  order.lost:")
	r.lines("registry", "apply", newest)
	require.NoError(t, r.sql(`SELECT outbox_emit('order.found', 'order', '4', '{}')`))
	r.settled(4)
	require.Zero(t, r.count(`SELECT count(*) FROM outbox_dlq`))
	current.end()
}

// A publisher that follows the database goes on when a topic is dropped for which it has a name, and /readyz asks for the
// topics of the new catalogue.
func TestTheTopicsOfAFollowedCatalogueChange(t *testing.T) {
	t.Parallel()
	r := stranger(t)
	const last = "  order.cancelled: {topic: orders, aggregate: order}\n"
	before := edited(t, dooritoFile, last, last+"  parcel.sent: {topic: parcels, aggregate: parcel}\n")
	before = edited(t, before, "topics: {", "topics: {parcels: doorito-parcels, ")
	after := edited(t, dooritoFile, last, last+"  order.returned: {topic: returns, aggregate: order}\n")
	after = edited(t, after, "topics: {", "topics: {returns: not-there, ")
	r.lines("registry", "apply", before, "--yes")
	r.lines("topic", "ensure", "-o", "id")
	p := startService(t, append(r.env(), "OUTBOXCTL_PUBSUB_TOPICS_PARCELS=doorito-parcels"), "publish")
	eventually(t, "it is ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
	require.NoError(t, r.sql(`SELECT outbox_emit('file.stored', 'UploadFile', '2', '1')`))
	r.settled(1)

	r.lines("registry", "apply", after, "--yes")
	eventually(t, "it asks for the new topic", func() bool {
		_, body := p.get("/readyz")
		return strings.Contains(body, "topic returns") && !strings.Contains(body, "topic parcels")
	})
	require.Contains(t, p.output(), "topics.parcels")
	require.NoError(t, r.sql(`SELECT outbox_emit('file.stored', 'UploadFile', '3', '1')`))
	r.settled(2)
	p.end()
	require.Regexp(t, `published"?[=:]2\b`, p.output(), "what was published by the catalogue before counts, too")
}

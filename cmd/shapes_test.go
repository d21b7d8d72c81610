package cmd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// run runs outboxctl and returns its exit code, its output and what it said.
func (r *publishRig) run(args ...string) (code int, out, talk string) {
	r.t.Helper()
	return cmd.RunText(r.t.Context(), r.env(), "", args...)
}

// lines runs a command that succeeds and returns the lines it printed.
func (r *publishRig) lines(args ...string) []string {
	r.t.Helper()
	code, out, talk := r.run(args...)
	require.Equal(r.t, cli.ExitOK, code, "%v: %s", args, talk)
	return strings.Fields(out)
}

// The life of events on every set of column types: emitted, published, dead, listed, replayed, discarded, removed.
func TestEveryShapeLivesThroughTheStory(t *testing.T) {
	t.Parallel()
	for _, shape := range outboxtest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			db := outboxtest.EmptyDB(t)
			shape.Prepare(t, db)
			r := publishRigOn(t, db)
			up := []string{"migrate"}
			if shape.Types != "" {
				up = append(up, "--types", shape.Types)
			}
			r.lines(up...)
			code, _, talk := r.run("migrate", "--types", map[bool]string{true: migrate.TypesText, false: migrate.TypesEnum}[shape.Types == migrate.TypesEnum])
			require.Equal(t, cli.ExitPrecondition, code, talk)
			require.Contains(t, talk, "hint: columns keep the type they have")

			sql := func(text string, args ...any) {
				_, err := db.Pool.Exec(t.Context(), text, args...)
				require.NoError(t, err)
			}
			good, bad, other := shape.AggregateID(1), shape.AggregateID(2), shape.AggregateID(3)
			sql(`SELECT outbox_emit('media_uploaded', NULL, $1::text, '{}', dedupe_key => 'k')`, good)
			sql(`SELECT outbox_emit('media_uploaded', NULL, $1::text, '{"odd": 1}')`, bad)
			sql(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) SELECT i, outbox_event_type('ad_paused'),
				outbox_aggregate_type('ad'), outbox_aggregate_id($1), jsonb_build_object('version', 1, 'eventId', i, 'occurredAt', '2026-01-01T00:00:00Z', 'data', '{}'::jsonb)
				FROM outbox_uuid_v7() AS i`, other)
			emitted := 3
			code, _, talk = r.run("emit", "--type", "ad_paused", "--aggregate-id", other, "--data", "{}")
			if shape.Integers() {
				require.Equal(t, cli.ExitUsage, code, "the built-in aggregates have UUIDs")
				require.Contains(t, talk, "aggregateId must be a uuid")
			} else {
				require.Equal(t, cli.ExitOK, code, talk)
				emitted++
			}

			require.Subset(t, r.lines("stats", "--by", "aggregate", "-o", "id"), []string{"ad", "media"})
			require.Subset(t, r.lines("stats", "--by", "type", "-o", "id"), []string{"ad_paused", "media_uploaded"})
			code, _, talk = r.run("publish", "--once")
			require.Equal(t, cli.ExitPartial, code, talk)
			require.Len(t, r.lines("event", "list", "--status", "published", "-o", "id"), emitted-1)
			require.Len(t, r.lines("event", "list", "--status", "published", "--type", "ad_paused", "-o", "id"), emitted-2)
			require.Len(t, r.lines("event", "list", "--aggregate", "media/"+good, "-o", "id"), 1)
			require.Len(t, r.lines("event", "list", "--aggregate", good, "-o", "id"), 1)
			require.Empty(t, r.lines("event", "list", "--aggregate", "ad/"+good, "-o", "id"))
			require.Len(t, r.lines("event", "list", "--aggregate", "ad", "-o", "id"), emitted-2)

			dead := r.lines("dlq", "list", "--type", "media_uploaded", "--aggregate", "media/"+bad, "-o", "id")
			require.Len(t, dead, 1)
			require.Contains(t, strings.Join(r.lines("why", dead[0]), " "), "of media "+bad)
			_, out, _ := r.run("dlq", "show", dead[0], "-o", "json")
			var shown struct{ AggregateID, EventType string }
			require.NoError(t, json.Unmarshal([]byte(out), &shown))
			require.Equal(t, struct{ AggregateID, EventType string }{bad, "media_uploaded"}, shown)
			r.lines("dlq", "replay", dead[0], "--yes", "--force")
			code, _, _ = r.run("publish", "--once")
			require.Equal(t, cli.ExitPartial, code)
			r.lines("dlq", "discard", "--type", "media_uploaded", "--yes")

			sql(`UPDATE outbox_events SET published_at = now() - interval '40 days' WHERE published_at IS NOT NULL`)
			sql(`UPDATE outbox_dlq SET state_changed_at = now() - interval '40 days'`)
			r.lines("cleanup", "--older-than", "30d", "--dlq-older-than", "30d")
			require.Empty(t, r.lines("event", "list", "-o", "id"))

			_, out, _ = r.run("doctor", "-o", "json")
			var findings []struct{ Area, Check, Level, Message string }
			require.NoError(t, json.Unmarshal([]byte(out), &findings), out)
			for _, f := range findings {
				require.False(t, f.Level == "fail" && f.Area == "database", "%+v", f)
			}
			r.lines("registry", "apply", "../testdata/catalogue/doorito.yaml", "--yes")
		})
	}
}

package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/ui"
)

func revealing(c *ui.Config) {
	operators(c)
	c.Payloads = ui.PayloadsReveal
}

// What an event carries is shown to an operator who says why, and that is audited; there is no one without the other.
func TestAPayloadIsRevealedAndAudited(t *testing.T) {
	b := setup(t, revealing)
	_, err := b.db.Pool.Exec(t.Context(), `SET session_replication_role = replica;
UPDATE outbox_events SET payload_json = '{"id": 9007199254740993, "text": "<script>window.pwned=1</script>", "secret": "canary-7f3a"}' WHERE id = '00000000-0000-7000-8000-0000000000e3'; RESET session_replication_role`)
	require.NoError(t, err)
	audits := func() int64 { return b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'payload.reveal'`) }
	_, _, body := b.get("/events/" + eventID)
	require.Contains(t, body, "/events/"+eventID+"/reveal")
	require.NotContains(t, body, secret)
	status, _, body := b.form("/events/"+eventID+"/reveal", "note", " ")
	require.Equal(t, http.StatusBadRequest, status, body)
	require.Zero(t, audits())

	status, _, body = b.form("/events/"+eventID+"/reveal", "note", "the customer asked")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "9007199254740993", "every digit")
	require.Contains(t, body, secret)
	require.NotContains(t, body, "<script>w")
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'payload.reveal' AND actor = 'ann@example.com' AND note = 'the customer asked'
   AND affected = 1 AND detail -> 'eventIds' ? $1 AND detail ->> 'via' = 'ui' AND NOT detail::text LIKE '%canary%'`, eventID))

	_, _, body = b.get("/audit?action=payload.reveal")
	_, _, body = b.get(linked(t, body, `href="(/audit/[^"]*)">payload.reveal<`))
	require.Contains(t, body, `href="/search?q=`+eventID+`">`)

	status, header, body := b.send(http.MethodPost, "/dead-letters/"+deadID+"/reveal", formType, "note=x&file=1")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "text/plain; charset=utf-8", header.Get("Content-Type"))
	require.Contains(t, header.Get("Content-Disposition"), "attachment; filename=")
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	require.Contains(t, body, secret)
	require.EqualValues(t, 2, audits())
	status, _, _ = b.form("/events/00000000-0000-7000-8000-0000000000ff/reveal", "note", "x")
	require.Equal(t, http.StatusNotFound, status)
	require.EqualValues(t, 2, audits())
}

func TestWhoMayReveal(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*ui.Config)
		want   int
	}{
		"off":       {operators, http.StatusNotFound},
		"read-only": {nil, http.StatusNotFound},
		"a viewer": {func(c *ui.Config) {
			revealing(c)
			c.Identify = func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "eve"}, nil }
		}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, tc.change)
			for _, path := range []string{"/events/" + eventID + "/reveal", "/dead-letters/" + deadID + "/reveal"} {
				status, _, body := b.send(http.MethodPost, path, formType, "note=x")
				require.Equal(t, tc.want, status)
				require.NotContains(t, body, secret)
			}
			_, _, body := b.get("/events/" + eventID)
			require.NotContains(t, body, "/reveal")
			require.Zero(t, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'payload.reveal'`))
		})
	}
}

func TestALargePayloadIsCutOnThePage(t *testing.T) {
	b := setup(t, revealing)
	_, err := b.db.Pool.Exec(t.Context(), `SET session_replication_role = replica;
UPDATE outbox_events SET payload_json = jsonb_build_object('x', repeat('y', 100000)) WHERE id = '00000000-0000-7000-8000-0000000000e3'; RESET session_replication_role`)
	require.NoError(t, err)
	_, _, body := b.form("/events/"+eventID+"/reveal", "note", "x")
	require.Contains(t, body, "Only the first 64 KiB are shown")
	require.Less(t, len(body), 80<<10)
	_, _, body = b.form("/events/"+eventID+"/reveal", "note", "x", "file", "1")
	require.Equal(t, 100_000, strings.Count(body, "y"))
}

// A consumer forgets an event when its name is typed.
func TestAConsumerForgets(t *testing.T) {
	redis := outboxtest.Redis(t).Client
	b := setup(t, func(c *ui.Config) { operators(c); c.Redis = redis })
	guard, err := consume.New(redis, "shop", consume.Options{})
	require.NoError(t, err)
	require.NoError(t, guard.Announce(t.Context()))
	_, err = guard.CheckAndMarkProcessed(t.Context(), uuid.MustParse(eventID), consume.DefaultTTL)
	require.NoError(t, err)
	_, _, body := b.get("/events/" + eventID)
	require.Contains(t, body, "a second time")
	status, _, body := b.form("/events/"+eventID+"/forget", "consumer", "shop", "confirm", "shp", "note", "x")
	require.Equal(t, http.StatusConflict, status, body)
	status, _, body = b.form("/events/"+eventID+"/forget", "consumer", "shop", "confirm", "shop", "note", "")
	require.Equal(t, http.StatusBadRequest, status, body)
	require.Zero(t, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'consumer.forget'`))
	status, to, body := b.form("/events/"+eventID+"/forget", "consumer", "shop", "confirm", "shop", "note", "it lost its index")
	require.Equal(t, []any{http.StatusSeeOther, "/events/" + eventID}, []any{status, to}, body)
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'consumer.forget' AND actor = 'ann@example.com' AND note = 'it lost its index' AND detail ->> 'via' = 'ui'`))
	status, _, body = b.form("/events/"+eventID+"/forget", "consumer", "shop", "confirm", "shop", "note", "x")
	require.Equal(t, http.StatusNotFound, status, body)
}

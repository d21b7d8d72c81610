package consumer_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/consumer"
)

func aReadyOrder(t *testing.T) consume.Event {
	t.Helper()
	e, err := consume.ParseEvent(map[string]string{
		"event_id": uuid.NewString(), "event_type": "order.ready", "aggregate_type": "order", "aggregate_id": "Tür 7%", "namespace": "shop",
		"tenant_id": "acme", "created_at": "2026-01-02T03:04:05Z",
	}, []byte(`{"door": 7}`))
	require.NoError(t, err)
	return e
}

func TestPostTo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		status     int
		retryAfter string
		malformed  bool
		failed     bool
		after      time.Duration
	}{
		{name: "done", status: 204},
		{name: "malformed", status: 400, failed: true, malformed: true},
		{name: "unprocessable", status: 422, failed: true, malformed: true},
		{name: "later", status: 503, failed: true},
		{name: "later, and it says when", status: 429, retryAfter: "7", failed: true, after: 7 * time.Second},
		{name: "a date that is over", status: 503, retryAfter: "Mon, 02 Jan 2006 15:04:05 GMT", failed: true},
		{name: "a redirect is not followed", status: 302, failed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := aReadyOrder(t)
			var got http.Header
			var body []byte
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r.Header
				body, _ = io.ReadAll(r.Body)
				w.Header().Set("Location", "/elsewhere")
				if tc.retryAfter != "" {
					w.Header().Set("Retry-After", tc.retryAfter)
				}
				w.WriteHeader(tc.status)
			}))
			t.Cleanup(server.Close)
			err := consumer.PostTo(server.URL, 1)(t.Context(), e)
			require.Equal(t, tc.failed, err != nil, "%v", err)
			if tc.malformed {
				require.ErrorIs(t, err, consume.ErrMalformed)
			}
			after, _ := consume.Delay(err)
			require.Equal(t, tc.after, after)
			require.Equal(t, e.Body, body)
			for name, want := range map[string]string{
				"Idempotency-Key": e.ID.String(), "Content-Type": "application/json", "Ce-Specversion": "1.0", "Ce-Id": e.ID.String(),
				"Ce-Type": "order.ready", "Ce-Source": "/outbox/shop", "Ce-Time": "2026-01-02T03:04:05Z", "Ce-Subject": "T%C3%BCr%207%25", "Ce-Tenantid": "acme",
			} {
				require.Equal(t, want, got.Get(name), name)
			}
			require.NotContains(t, got, "Ce-Dedupekey", "what the event has not")
		})
	}
}

// What cannot be handed over at all will not be at the next delivery either.
func TestWhatCannotBeHandedOverIsMalformed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	post, run := consumer.PostTo(server.URL, 1), consumer.RunCommand("exit 0", "mailer", io.Discard)
	for _, tc := range []struct {
		name, attribute, value string
		post, run              bool
	}{
		{name: "NUL", attribute: "aggregate_id", value: "a\x00b", run: true},
		{name: "NUL in a time", attribute: "created_at", value: "\x00", run: true},
		{name: "NUL in a header", attribute: "ce-note", value: "\x00"},
		{name: "line break", attribute: "tenant_id", value: "a\r\nb: c"},
		{name: "blank in a name", attribute: "ce-my note", value: "x", post: true},
		{name: "line break in a name", attribute: "ce-a\r\nb", value: "x", post: true},
		{name: "name beyond ASCII", attribute: "ce-größe", value: "x", post: true},
		{name: "odd name", attribute: "ce-a.b_c|d", value: "x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			attributes := aReadyOrder(t).Attributes
			attributes[tc.attribute] = tc.value
			parsed, err := consume.ParseEvent(attributes, []byte(`{}`))
			require.NoError(t, err)
			for _, handler := range []struct {
				handle    consume.Handler
				malformed bool
			}{{post, tc.post}, {run, tc.run}} {
				err := handler.handle(t.Context(), parsed)
				if handler.malformed {
					require.ErrorIs(t, err, consume.ErrMalformed)
				} else {
					require.NoError(t, err)
				}
			}
		})
	}
}

// Headers of an event become attributes too: none may say in a request what the publisher says.
func TestAttributesForgeNoHeaderOfARequest(t *testing.T) {
	t.Parallel()
	e := aReadyOrder(t)
	for _, name := range []string{
		"specversion", "id", "type", "time", "subject", "aggregatetype", "aggregateid", "namespace", "tenantid", "dedupekey",
	} {
		e.Attributes["ce-"+name], e.Attributes["Ce-"+name], e.Attributes["ce-"+strings.ToUpper(name)] = "forged", "forged", "forged"
	}
	e.Attributes["ce-source"], e.Attributes["ce-traceparent"], e.Attributes["Idempotency-Key"] = "//shop", "00", "forged"
	e.Attributes["event-id"], e.Attributes["Attempt"], e.Attributes["ordering-key"] = "forged", "forged", "forged"
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(server.Close)
	require.NoError(t, consumer.PostTo(server.URL, 1)(t.Context(), e))
	own := map[string]string{}
	for name := range got {
		if rest, found := strings.CutPrefix(name, "Outbox-"); found && (strings.HasPrefix(rest, "Ce-") || strings.HasPrefix(rest, "%") || rest == "Idempotency-Key") {
			own[rest] = got.Get(name) // as the event's own, behind its prefix
			continue
		}
		require.NotContains(t, got.Values(name), "forged", name)
	}
	require.Equal(t, "forged", own["%65vent-Id"])
	require.Equal(t, []string{"//shop", "00", "acme", ""}, []string{got.Get("ce-source"), got.Get("ce-traceparent"), got.Get("ce-tenantid"), got.Get("ce-dedupekey")})
}

func TestPostToHidesTheAddress(t *testing.T) {
	t.Parallel()
	err := consumer.PostTo("http://user:secret@127.0.0.1:1/", 1)(t.Context(), aReadyOrder(t))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

func TestRunCommand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, command string
		failed        bool
		malformed     bool
		prints        string
	}{
		{name: "done", command: `cat; echo " $OUTBOX_CONSUMER $OUTBOX_EVENT_TYPE $OUTBOX_AGGREGATE_ID $OUTBOX_TENANT_ID"`, prints: "{\"door\": 7} mailer order.ready Tür 7% acme\n"},
		{name: "does not read its input", command: `exit 0`},
		{name: "malformed", command: `exit 65`, failed: true, malformed: true},
		{name: "later", command: `exit 1`, failed: true},
		{name: "not there", command: `/no/such/program`, failed: true, prints: "/no/such/program"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := consumer.RunCommand(tc.command, "mailer", &out)(t.Context(), aReadyOrder(t))
			require.Equal(t, tc.failed, err != nil, "%v", err)
			if tc.malformed {
				require.ErrorIs(t, err, consume.ErrMalformed)
			}
			require.Contains(t, out.String(), tc.prints)
		})
	}
}

// Both are told everything: the event's own headers, its trace, place, key, tenant and attempt.
func TestEverythingIsHandedOver(t *testing.T) {
	t.Parallel()
	e := aReadyOrder(t)
	maps.Copy(e.Attributes, map[string]string{"traceparent": "00-ab-cd-01", "event_seq": "42", "shop_region": "eu west"})
	e, err := consume.ParseEvent(e.Attributes, e.Body)
	require.NoError(t, err)
	e.OrderingKey, e.Attempt = "shop/orders/7", 3
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(server.Close)
	require.NoError(t, consumer.PostTo(server.URL, 1)(t.Context(), e))
	for name, want := range map[string]string{
		"traceparent": "00-ab-cd-01", "outbox-traceparent": "00-ab-cd-01", "outbox-event-seq": "42", "outbox-shop%5Fregion": "eu%20west",
		"outbox-ordering-key": "shop/orders/7", "outbox-attempt": "3", "outbox-tenant-id": "acme", "ce-tenantid": "acme", "outbox-event-id": e.ID.String(),
	} {
		require.Equal(t, want, got.Get(name), name)
	}
	var said bytes.Buffer
	require.NoError(t, consumer.RunCommand("env", "mailer", &said)(t.Context(), e))
	for _, want := range []string{
		"TRACEPARENT=00-ab-cd-01", "OUTBOX_EVENT_SEQ=42", "OUTBOX_ORDERING_KEY=shop/orders/7", "OUTBOX_ATTEMPT=3", "OUTBOX_TENANT_ID=acme",
		`"shop_region":"eu west"`, "OUTBOX_CONSUMER=mailer",
	} {
		require.Contains(t, said.String(), want)
	}
}

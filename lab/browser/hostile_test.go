package browser

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// hostile is text that wants to be more than text. A NUL cannot be stored, but it can be asked for.
var hostile = `<script>window.pwned=1</script><img src=x onerror="window.pwned=2"><a href="javascript:window.pwned=3" hx-get="/steal">{{.Secret}}` +
	"\u202e\u200b\x1b[31m\"' " + strings.Repeat("W", 4<<10)

func TestHostileTextIsOnlyText(t *testing.T) {
	t.Parallel()
	s := newSite(t, live)
	s.exec(`INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, topic, fingerprint, namespace)
SELECT '01930000-0000-7000-8000-0000000000d9', '01930000-0000-7000-8000-0000000000e2', 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'max_attempts', $1, 1, $1, left($1, 1000), $1`, hostile)
	s.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at, last_error, broker_message_id, dedupe_key, namespace)
VALUES ('01930000-0000-7000-8000-0000000000e9', 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', now(), $1, $1, left($1, 1000), $1)`, hostile)
	s.exec(`INSERT INTO outbox_audit (actor, action, note, detail) VALUES ($1, $1, $1, jsonb_build_object('eventIds', jsonb_build_array('01930000-0000-7000-8000-0000000000e2'), 'runId', $1::text))`, hostile)
	s.exec(`INSERT INTO outbox_publishers (id, host, pid, version, last_seen_at, state) VALUES (gen_random_uuid(), $1, 1, $1, now() + interval '1 hour', jsonb_build_object('topics', jsonb_build_array(jsonb_build_object('topic', $1::text, 'state', 'unreachable', 'error', $1::text))))`, hostile)
	b := newTab(t, s.url)
	b.open("/")
	b.see(`document.body.textContent.includes("window.pwned")`)
	quoted := url.QueryEscape(hostile)
	refused := []string{
		"/dead-letters?fingerprint=" + quoted, "/dead-letters?error-like=" + quoted, "/dead-letters?aggregate=" + quoted, "/audit?actor=" + quoted, "/audit?run=" + quoted,
		"/search?q=" + quoted, "/search?q=%00", "/dead-letters/" + url.PathEscape(hostile), "/events?aggregate=" + quoted, "/events/%00", "/" + url.PathEscape(hostile), "/dead-letters?" + quoted + "=1",
	}
	b.expect("answered 400", "answered 404", "status of 400", "status of 404")
	for _, address := range append(s.addresses(s.plan()), append(refused, "/dead-letters/01930000-0000-7000-8000-0000000000d9", "/events/01930000-0000-7000-8000-0000000000e9")...) {
		b.open(address)
		require.False(t, js[bool](b, `"pwned" in window`), address)
		require.Zero(t, js[int](b, `document.querySelectorAll("img, [hx-get], [onerror], [href^='javascript:'], script:not([src])").length`), address)
		require.False(t, js[bool](b, `/[\u202e\u200b\u001b\u0000]/.test(document.body.innerText)`), address)
		require.True(t, js[bool](b, `document.documentElement.scrollWidth <= innerWidth`), "%.60s: one long word does not widen the page", address)
	}
}

// changes are the routes that change something: none of them is there when changes are not allowed.
func changes(plan string) map[string]string {
	return map[string]string{
		"/dead-letters/" + letterID + "/reveal": http.MethodPost, "/events/" + eventID + "/reveal": http.MethodPost, "/events/" + eventID + "/forget": http.MethodPost,
		"/dead-letters": http.MethodPost, "/plans": http.MethodPost, "/plans/" + plan + "/run": http.MethodPost, "/plans/" + plan + "/stop": http.MethodPost,
	}
}

func TestAPageThatOnlyLooksHasNothingElse(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	plan := s.plan()
	b := newTab(t, s.url)
	for _, address := range s.addresses(plan) {
		b.open(address)
		require.Zero(t, js[int](b, `document.querySelectorAll("form[method=post], main input[type=checkbox]").length`), address)
		require.False(t, js[bool](b, `[...document.querySelectorAll("button, a.button")].some(e => /replay|discard|restore|reveal|republish/i.test(e.textContent))`), address)
		require.False(t, js[bool](b, `document.documentElement.outerHTML.includes("canary-7f3a")`), address)
	}
	for path, method := range changes(plan) {
		want := http.StatusNotFound
		if path == "/dead-letters" { // it is there, and nothing is ever posted to it
			want = http.StatusMethodNotAllowed
		}
		require.Equal(t, want, s.status(method, path), "%s %s", method, path)
	}
}

// Another site, also one on another port of the same machine, can neither post to the page nor show it in a frame nor read it.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><title>evil</title><form method="post" action="` + s.url + `/plans"><button>win</button></form><iframe src="` + s.url + `/"></iframe>`))
	}))
	t.Cleanup(evil.Close)
	b := newTab(t, evil.URL)
	b.expect("asked another host: "+s.url, "frame-ancestors", "X-Frame-Options", "CORS", "answered 403", "status of 403", "net::ERR", "Framing")
	b.open("/")
	require.True(t, js[bool](b, `(() => { try { return !document.querySelector("iframe").contentDocument; } catch { return true; } })()`), "the frame shows nothing of ours")
	require.True(t, js[bool](b, `fetch("`+s.url+`/dead-letters").then(() => false, () => true)`), "the answer cannot be read")
	b.do(chromedp.Click(chromedp.CSS("form button")))
	b.seeText("the request comes from another site")

	for host, want := range map[string]int{"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example": http.StatusMisdirectedRequest, "localhost": http.StatusOK} {
		require.Equal(t, want, s.status(http.MethodGet, "/", "Host", host), host)
	}
	require.Equal(t, http.StatusForbidden, s.status(http.MethodPost, "/plans", "Origin", "http://127.0.0.1:1"))
}

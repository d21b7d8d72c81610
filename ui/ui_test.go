package ui_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

func TestEveryPageAnswers(t *testing.T) {
	b := setup(t, nil)
	for _, address := range b.addresses() {
		status, header, body := b.get(address)
		require.Equal(t, http.StatusOK, status, "%s: %s", address, body)
		require.Contains(t, body, `<main id="main">`, address)
		require.Regexp(t, `On the command line</span><code>outboxctl [a-z]`, body, "%s names the command that does the same", address)
		require.NotContains(t, body, secret, address)
		require.NotRegexp(t, `style="|onclick=|javascript:|https?://[^1]`, body, "%s asks no other server, and has nothing the policy forbids", address)
		require.Equal(t, "no-store", header.Get("Cache-Control"), address)
		require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'", address)
		require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), address)
	}
	_, _, body := b.get("/")
	for _, want := range []string{"No publisher is alive; waiting: 1 event.", "Waiting for a decision: 1 open dead letter.", "no such topic", "eve@example.com</bdi> · Viewer"} {
		require.Contains(t, body, want)
	}
	require.Contains(t, body, "The charts as a table")
	_, _, body = b.get("/audit/" + b.discarded())
	require.Contains(t, body, `href="/plans/`+b.planID()+`">the plan<`)
	_, _, body = b.get("/dead-letters/00000000-0000-7000-8000-0000000000d4")
	require.Contains(t, body, "discarded")
	require.Contains(t, body, "a test")
}

// A page that is left out of addresses is tested by nothing above. A plan that has run and a search lead to other pages.
func TestEveryPageIsLookedAt(t *testing.T) {
	pages, looked := http.NewServeMux(), []string{"/plans/{id}", "/search"}
	for _, path := range ui.PagePaths() {
		pages.Handle(path, http.NotFoundHandler())
	}
	for _, address := range setup(t, nil).addresses() {
		_, page := pages.Handler(httptest.NewRequest(http.MethodGet, address, nil))
		looked = append(looked, page)
	}
	require.Subset(t, looked, ui.PagePaths())
}

func TestAddressesMeanWhatTheFlagsMean(t *testing.T) {
	b := setup(t, nil)
	for address, want := range map[string]struct {
		status int
		text   string
	}{
		"/dead-letters?typ=order_canceled":                            {http.StatusBadRequest, "no filter of this list"},
		"/dead-letters?reason=bad":                                    {http.StatusBadRequest, "none of max_attempts"},
		"/dead-letters?type=bad":                                      {http.StatusBadRequest, "registry list"},
		"/dead-letters?since=yesterday-ish":                           {http.StatusBadRequest, "neither a time"},
		"/dead-letters?limit=0":                                       {http.StatusBadRequest, "1 to 1000"},
		"/dead-letters?limit=1001":                                    {http.StatusBadRequest, "1 to 1000"},
		"/dead-letters/nonsense":                                      {http.StatusBadRequest, "is not an id"},
		"/events/00000000-0000-7000-8000-0000000000ff":                {http.StatusNotFound, "no event"},
		"/plans/00000000-0000-7000-8000-0000000000ff":                 {http.StatusNotFound, "no plan"},
		"/search?q=118824410000003":                                   {http.StatusNotFound, "as the broker&#39;s id"},
		"/search?q=order+47%2F11":                                     {http.StatusNotFound, "no event has the dedupe key"},
		"/search?q=%00":                                               {http.StatusNotFound, "no event has the dedupe key"},
		"/search?q=00000000":                                          {http.StatusBadRequest, "00000000-0000-7000-8000-0000000000e2 order_canceled, an event"},
		"/nothing":                                                    {http.StatusNotFound, "no page"},
		"/dead-letters?state=all&limit=1":                             {http.StatusOK, "Next page"},
		"/dead-letters?error-like=such&reason=max_attempts&since=30d": {http.StatusOK, "outboxctl dlq list --reason max_attempts --since 30d --error-like such"},
	} {
		status, _, body := b.get(address)
		require.Equal(t, want.status, status, address)
		require.Contains(t, body, want.text, address)
	}
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, tenant_id)
VALUES (gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'max_attempts', 'no', 1, '00000000-0000-7000-8000-00000000bbbb')`)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dedupe_key, published_at, broker_message_id)
SELECT ('00000000-0000-7000-8000-0000000000f' || i)::uuid, (ARRAY['order_canceled', 'order_created'])[i]::event_type_enum, 'vendor_order', gen_random_uuid(), '{}', 'order 47/11 no. ' || i, now(), (118824410000000 + i)::text FROM generate_series(1, 2) AS i`)
	require.NoError(t, err)
	for from, to := range map[string]string{
		"/dead-letters?type=&reason=max_attempts&since=": "/dead-letters?reason=max_attempts",
		"/search?q=00000000-0000-7000-8000-0000000000d3": "/dead-letters/00000000-0000-7000-8000-0000000000d3",
		"/search?q=00000000-0000-7000-8000-0000000000e2": "/events/00000000-0000-7000-8000-0000000000e2",
		"/search?q=00000000-0000-7000-8000-00000000aaaa": "/events?aggregate=00000000-0000-7000-8000-00000000aaaa",
		"/search?q=00000000-0000-7000-8000-00000000bbbb": "/dead-letters?state=all&tenant=00000000-0000-7000-8000-00000000bbbb",
		"/search?q=order+47%2F11+no.+1":                  "/events/00000000-0000-7000-8000-0000000000f1",
		"/search?q=order+47%2F11+no.+2":                  "/events/00000000-0000-7000-8000-0000000000f2",
		"/search?q=118824410000002":                      "/events/00000000-0000-7000-8000-0000000000f2",
		"/search?q=vendor_order":                         "/events?aggregate=vendor_order",
		"/doctor?again=1":                                "/doctor",
		"/search?q=" + b.planID():                        "/plans/" + b.planID(),
	} {
		status, header, _ := b.get(from)
		require.Equal(t, http.StatusSeeOther, status, from)
		require.Equal(t, to, header.Get("Location"), from)
	}
}

// Every link, form, asset and redirect has the prefix, whether the proxy takes it off or not.
func TestBasePath(t *testing.T) {
	b := setup(t, func(c *ui.Config) { c.BasePath = "/ops/outbox/" })
	for _, address := range b.addresses() {
		status, _, body := b.get(address)
		require.Equal(t, http.StatusOK, status, address)
		for _, link := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			require.True(t, strings.HasPrefix(link[1], "/ops/outbox/") || link[1] == "#main", "%s: %s", address, link[1])
		}
	}
	_, header, _ := b.get("/dead-letters?type=")
	require.Equal(t, "/ops/outbox/dead-letters", header.Get("Location"))
	b.base = "" // as behind a proxy that takes it off
	status, _, _ := b.get("/causes")
	require.Equal(t, http.StatusOK, status)
}

// hostile is text that wants to be something else than text.
const hostile = "<script>window.pwned=1</script><img src=x onerror=pwned()>{{.Secret}}\u202e\x1b[31m\u200b\"' hx-get=/ "

// withoutFields is a page without what its fields hold: what was typed into them, for the next request.
func withoutFields(page string) string {
	return regexp.MustCompile(`value="[^"]*"|(?s)<textarea.*?</textarea>`).ReplaceAllString(page, "")
}

func TestHostileTextStaysText(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_dlq (id, event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, topic, fingerprint, namespace)
SELECT '00000000-0000-7000-8000-0000000000d9', '00000000-0000-7000-8000-0000000000e3', 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'max_attempts', $1, 1, $1, $1, $1`, hostile)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_audit (actor, action, note, detail) VALUES ($1, $1, $1, jsonb_build_object('eventIds', jsonb_build_array('00000000-0000-7000-8000-0000000000e3'), 'runId', $1::text))`, hostile)
	require.NoError(t, err)
	_, err = b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_publishers (id, host, pid, version, last_seen_at, state) VALUES (gen_random_uuid(), $1, 1, $1, now() + interval '1 hour', jsonb_build_object('topics', jsonb_build_array(jsonb_build_object('topic', $1::text, 'state', 'unreachable', 'error', $1::text))))`, hostile)
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, _, body := b.get("/"); return strings.Contains(body, "window.pwned") }, waitFor, tick)
	quoted := url.QueryEscape(hostile)
	for _, address := range append(b.addresses(), "/dead-letters/00000000-0000-7000-8000-0000000000d9", "/dead-letters?fingerprint="+quoted, "/dead-letters?error-like="+quoted,
		"/audit?actor="+quoted, "/audit?run="+quoted, "/search?q="+quoted, "/dead-letters/"+url.PathEscape(hostile), "/events?aggregate="+quoted, "/"+url.PathEscape(hostile)) {
		_, _, body := b.get(address)
		body = withoutFields(body)
		for _, bad := range []string{"<script>w", "<img", "\u202e", "\x1b", "\u200b"} {
			require.NotContains(t, body, bad, address)
		}
	}
}

func TestForeignRequestsAreRefused(t *testing.T) {
	b := setup(t, nil)
	for _, tc := range []struct {
		headers []string
		want    int
	}{
		{[]string{"Host", "evil.example"}, http.StatusMisdirectedRequest},
		{[]string{"Host", "127.0.0.1.evil.example:80"}, http.StatusMisdirectedRequest},
		{[]string{"Host", "localhost:1"}, http.StatusOK},
		{[]string{"Host", "[::1]:1"}, http.StatusOK},
	} {
		status, _, _ := b.get("/", tc.headers...)
		require.Equal(t, tc.want, status, tc.headers)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
		for _, address := range []string{"/dead-letters", "/plans", "/plans/x/run", "/"} {
			request, err := http.NewRequestWithContext(t.Context(), method, b.url+address, nil)
			require.NoError(t, err)
			request.Header.Set("Sec-Fetch-Site", "same-origin")
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, response.StatusCode, "%s %s: nothing can be changed", method, address)
			request.Header.Set("Sec-Fetch-Site", "cross-site")
			response, err = http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusForbidden, response.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestWhoIsNotKnownSeesNothing(t *testing.T) {
	b := setup(t, func(c *ui.Config) {
		c.Identify = func(r *http.Request) (ui.Identity, error) {
			switch r.Header.Get("Authorization") {
			case "good":
				return ui.Identity{Name: "ann"}, nil
			case "broken":
				return ui.Identity{}, errors.New("the key set cannot be read")
			}
			return ui.Identity{}, ui.ErrNotSignedIn
		}
	})
	for _, address := range append(b.addresses(), "/metrics", "/nothing") {
		status, header, body := b.get(address)
		require.Equal(t, http.StatusUnauthorized, status, address)
		require.NotEmpty(t, header.Get("WWW-Authenticate"))
		require.NotRegexp(t, `no such topic|class="menu"|class="place"|Figures of|test_\d|outboxctl [^<]`, body, "no figure, no name, no version")
	}
	status, _, body := b.get("/", "Host", "evil.example")
	require.Equal(t, http.StatusMisdirectedRequest, status)
	require.NotRegexp(t, `class="menu"|class="place"|Figures of`, body)
	_, _, page := b.get("/")
	status, _, _ = b.get(regexp.MustCompile(`/assets/style[^"]*`).FindString(page))
	require.Equal(t, http.StatusOK, status, "the page that asks to sign in has its looks")
	status, _, _ = b.get("/", "Authorization", "broken")
	require.Equal(t, http.StatusInternalServerError, status)
	status, _, body = b.get("/", "Authorization", "good")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<bdi>ann</bdi> · Viewer")
	status, _, _ = b.get("/healthz")
	require.Equal(t, http.StatusOK, status)
}

func TestAssetsAreKeptForEverAndSmall(t *testing.T) {
	b := setup(t, nil)
	_, _, page := b.get("/")
	total := len(page)
	for _, asset := range regexp.MustCompile(`/assets/[a-z0-9.-]+`).FindAllString(page, -1) {
		status, header, body := b.get(asset)
		require.Equal(t, http.StatusOK, status, asset)
		require.Contains(t, header.Get("Cache-Control"), "immutable")
		if strings.HasSuffix(asset, ".css") {
			require.Less(t, len(body), 20<<10)
		}
		total += len(body)
	}
	require.Less(t, total, 90<<10, "a first visit loads this much")
	status, _, _ := b.get("/assets/style.css")
	require.Equal(t, http.StatusNotFound, status)
}

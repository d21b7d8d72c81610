package ui_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/ui"
)

// vouched lets in whom a proxy vouches for, and returns how to sign what it would say.
func vouched(t *testing.T) (change func(*ui.Config), sign func(alg jose.SignatureAlgorithm, key any, claims ...any) string, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
	}))
	t.Cleanup(keys.Close)
	params := signin.JWTParams{Preset: "iap", KeysURL: keys.URL, Audience: "us", Operators: []string{"ann@example.com"}, Now: time.Now}
	require.Empty(t, params.Complete())
	method := signin.NewJWT(params)
	sign = func(alg jose.SignatureAlgorithm, key any, changed ...any) string {
		claims := map[string]any{"iss": "https://cloud.google.com/iap", "aud": "us", "email": "ann@example.com", "exp": time.Now().Add(time.Hour).Unix()}
		for i := 0; i+1 < len(changed); i += 2 {
			claims[fmt.Sprint(changed[i])] = changed[i+1]
		}
		doc, err := json.Marshal(claims)
		require.NoError(t, err)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, nil)
		require.NoError(t, err)
		signed, err := signer.Sign(doc)
		require.NoError(t, err)
		text, err := signed.CompactSerialize()
		require.NoError(t, err)
		return text
	}
	return func(c *ui.Config) {
		revealing(c)
		c.Identify, c.Challenge = method.Identify, method.Challenge()
	}, sign, key
}

// A request does not become another user's by saying so: every address refuses them, and nothing is changed or shown.
func TestForgedIdentities(t *testing.T) {
	change, sign, key := vouched(t)
	b := setup(t, change)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public, err := json.Marshal(jose.JSONWebKey{Key: &key.PublicKey})
	require.NoError(t, err)
	good := sign(jose.ES256, key)
	parts := strings.Split(good, ".")
	before := b.count(`SELECT (SELECT count(*) FROM outbox_plans) + (SELECT count(*) FROM outbox_audit)`)
	for name, headers := range map[string][]string{
		"nothing": nil,
		"names of proxies": {
			"X-Forwarded-User", "ann@example.com", "X-Forwarded-Email", "ann@example.com", "X-Auth-Request-Email", "ann@example.com", "X-Goog-Authenticated-User-Email", "accounts.google.com:ann@example.com",
			"Remote-User", "ann@example.com", "X-Remote-User", "ann@example.com", "Cf-Access-Authenticated-User-Email", "ann@example.com", "X-Forwarded-For", "127.0.0.1", "X-Real-Ip", "127.0.0.1", "Forwarded", "for=127.0.0.1",
		},
		"another proxy's header":    {"Cf-Access-Jwt-Assertion", good},
		"as a Bearer":               {"Authorization", "Bearer " + good},
		"as a cookie":               {"Cookie", "outboxctl_9466=" + good},
		"unsigned":                  {"X-Goog-IAP-JWT-Assertion", "eyJhbGciOiJub25lIn0." + parts[1] + "."},
		"without its signature":     {"X-Goog-IAP-JWT-Assertion", parts[0] + "." + parts[1] + "."},
		"HS256 with the public key": {"X-Goog-IAP-JWT-Assertion", sign(jose.HS256, public)},
		"another key":               {"X-Goog-IAP-JWT-Assertion", sign(jose.ES256, other)},
		"expired":                   {"X-Goog-IAP-JWT-Assertion", sign(jose.ES256, key, "exp", time.Now().Add(-time.Hour).Unix())},
		"not valid yet":             {"X-Goog-IAP-JWT-Assertion", sign(jose.ES256, key, "nbf", time.Now().Add(time.Hour).Unix())},
		"another audience":          {"X-Goog-IAP-JWT-Assertion", sign(jose.ES256, key, "aud", "them")},
		"another issuer":            {"X-Goog-IAP-JWT-Assertion", sign(jose.ES256, key, "iss", "https://evil.example")},
	} {
		for _, address := range []string{"/", "/dead-letters", "/audit", "/settings", "/parts/causes", "/metrics"} {
			status, header, body := b.get(address, headers...)
			require.Equal(t, http.StatusUnauthorized, status, "%s: %s", name, address)
			require.Equal(t, "no-store", header.Get("Cache-Control"), address)
			require.NotRegexp(t, `no such topic|class="menu"|ann@|outboxctl [^<]`, body, "%s: %s", name, address)
		}
		for _, call := range ui.ChangePaths() {
			status, _, _ := b.send(http.MethodPost, strings.ReplaceAll(call, "{id}", deadID), formType, "note=x", headers...)
			require.Equal(t, http.StatusUnauthorized, status, "%s: %s", name, call)
		}
	}
	require.Equal(t, before, b.count(`SELECT (SELECT count(*) FROM outbox_plans) + (SELECT count(*) FROM outbox_audit)`))

	// A user who is known has the name that was signed, whatever else the request says.
	status, _, body := b.send(http.MethodPost, "/plans", formType, "action=replay&note=x&ids="+deadID, "X-Goog-IAP-JWT-Assertion", good, "X-Forwarded-User", "bob")
	require.Equal(t, http.StatusSeeOther, status, body)
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_plans WHERE author = 'ann@example.com'`))
}

// injected is text that wants to be something else than text: markup, SQL, a formula, controls, what cannot be stored.
func injected() []string {
	return []string{
		hostile, `'; DROP TABLE outbox_dlq; -- %_\`, `=HYPERLINK("http://evil.example","x")`, "a\r\nSet-Cookie: x=1", "\x00", "\xff\xfe", "../../etc/passwd",
		"//evil.example", "9223372036854775808", strings.Repeat("W", 8<<10), "\u202e\u2066\u200b\ufeff",
	}
}

// harmless sees that an answer is neither a fault of ours nor more than text. A machine that is busy may be slow to answer.
func harmless(t *testing.T, what string, status int, header http.Header, body string) {
	t.Helper()
	require.Contains(t, []int{http.StatusOK, http.StatusSeeOther, http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable}, status, "%.200s: %.300s", what, body)
	require.Empty(t, header.Get("Set-Cookie"), what)
	require.NotContains(t, header.Get("Location"), "evil.example", "%.200s", what)
	for _, bad := range []string{"<script>w", "<img", "\u202e", "\u2066", "\x1b", "\x00", secret} {
		require.NotContains(t, withoutFields(body), bad, "%.200s", what)
	}
}

// Every filter, id, cursor and field of the page takes any text, and does nothing but compare it.
func TestInjectedText(t *testing.T) {
	b := setup(t, revealing)
	names := map[string][]string{
		"/dead-letters": {"reason", "type", "topic", "fingerprint", "aggregate", "tenant", "namespace", "since", "until", "error-like", "blocking", "state", "limit", "cursor"},
		"/events":       {"status", "type", "aggregate", "tenant", "namespace", "since", "until", "limit", "cursor"},
		"/audit":        {"actor", "action", "run", "event", "since", "until", "limit", "cursor"},
		"/causes":       {"by"}, "/plans": {"limit", "cursor"}, "/search": {"q"}, "/doctor": {"again"}, "/topics": {"x"}, "/": {"x"},
	}
	for _, text := range injected() {
		value := url.QueryEscape(text)
		for path, filters := range names {
			for _, name := range append(filters, text) {
				address := path + "?" + url.QueryEscape(name) + "=" + value
				status, header, body := b.get(address)
				harmless(t, address, status, header, body)
			}
		}
		for _, path := range append(ui.PagePaths(), "/assets/{id}", "/{id}") {
			if strings.Contains(path, "{id}") {
				address := strings.ReplaceAll(path, "{id}", url.PathEscape(text))
				status, header, body := b.get(address)
				harmless(t, address, status, header, body)
			}
		}
		for _, fields := range []url.Values{
			{"action": {text}, "ids": {"x"}}, {"action": {"replay"}, "ids": {text}}, {"action": {"replay"}, "ids": {deadID}, "note": {text}}, {text: {text}},
			{"action": {"replay"}, "filter.fingerprint": {text}, "filter.namespace": {text}, "filter.error-like": {text}, "filter.topic": {text}}, {"action": {"replay"}, "filter." + text: {"x"}},
		} {
			status, header, answer := b.send(http.MethodPost, "/plans", formType, fields.Encode())
			harmless(t, fields.Encode(), status, header, answer)
		}
		for path, fields := range map[string]url.Values{
			"/events/" + eventID + "/forget": {"consumer": {text}, "confirm": {text}, "note": {text}}, "/plans/" + b.planID() + "/run": {"confirm.count": {text}, "confirm.database": {text}, "note": {text}},
			"/plans/" + b.planID() + "/run?x": {"rate": {text}},
		} {
			status, header, answer := b.send(http.MethodPost, path, formType, fields.Encode())
			harmless(t, path+" "+fields.Encode(), status, header, answer)
		}
	}
	require.EqualValues(t, 2, b.count(`SELECT count(*) FROM outbox_dlq`), "nothing but the world's")
}

// raw sends bytes as they are and returns the status of the answer, the headers and the body.
func (b *bundle) raw(text string) (status int, header http.Header, body string) {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	require.NoError(b.t, err)
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, text) }() // the server may close before it has read all
	require.NoError(b.t, conn.SetReadDeadline(time.Now().Add(waitFor)))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(b.t, err, "%.100q", text)
	defer func() { _ = response.Body.Close() }()
	content, _ := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(content)
}

// What no browser sends is refused or means what it says: no other method, no other path, no other host.
func TestStrangeRequests(t *testing.T) {
	b := setup(t, func(c *ui.Config) { revealing(c); c.BasePath = "/ops/outbox" })
	before := b.count(`SELECT (SELECT count(*) FROM outbox_plans) + (SELECT count(*) FROM outbox_audit)`)
	const rest = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	for name, tc := range map[string]struct {
		text string
		want []int
	}{
		"no version":             {"GET /\r\n\r\n", []int{400}},
		"binary":                 {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", []int{400}},
		"no host":                {"GET / HTTP/1.1\r\n\r\n", []int{400}},
		"two hosts":              {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", []int{400}},
		"another host in line":   {"GET http://evil.example/ops/outbox/ HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{421}},
		"a host with a path":     {"GET /ops/outbox/ HTTP/1.1\r\nHost: localhost/evil.example\r\n\r\n", []int{400, 421}},
		"a user in the host":     {"GET /ops/outbox/ HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n", []int{400, 421}},
		"rebound":                {"GET /ops/outbox/ HTTP/1.1\r\nHost: evil.example\r\nSec-Fetch-Site: same-origin\r\nX-Forwarded-Host: localhost\r\n\r\n", []int{421}},
		"two lengths":            {"POST /ops/outbox/plans" + rest + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", []int{400}},
		"a length and chunks":    {"POST /ops/outbox/plans" + rest + "Content-Type: " + formType + "\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", []int{400}},
		"unknown encoding":       {"POST /ops/outbox/plans" + rest + "Transfer-Encoding: gzip\r\n\r\nx", []int{400, 501}},
		"a header of two lines":  {"GET /ops/outbox/" + rest + "X: a\r\n b\r\n\r\n", []int{200, 400}},
		"a space in a name":      {"GET /ops/outbox/" + rest + "X : a\r\n\r\n", []int{400}},
		"headers without end":    {"GET /ops/outbox/" + rest + "X: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", []int{431}},
		"a query without end":    {"GET /ops/outbox/?x=" + strings.Repeat("a", 2<<20) + rest + "\r\n", []int{431}},
		"a method of its own":    {"FROB /ops/outbox/plans" + rest + "\r\n", []int{404, 405}},
		"TRACE":                  {"TRACE /ops/outbox/" + rest + "Cookie: secret=1\r\n\r\n", []int{404, 405}},
		"CONNECT":                {"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\n\r\n", []int{403, 404, 405}},
		"GET of a change":        {"GET /ops/outbox/plans?action=replay&ids=" + deadID + rest + "\r\n", []int{400, 404, 405}},
		"GET that says POST":     {"GET /ops/outbox/dead-letters/" + deadID + "/reveal?_method=POST&note=x" + rest + "X-HTTP-Method-Override: POST\r\n\r\n", []int{404, 405}},
		"HEAD of a change":       {"HEAD /ops/outbox/dead-letters/" + deadID + "/reveal" + rest + "\r\n", []int{404, 405}},
		"a cross-site preflight": {"OPTIONS /ops/outbox/plans" + rest + "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n", []int{404, 405}},
		"up":                     {"GET /ops/outbox/assets/../../../etc/passwd" + rest + "\r\n", []int{301, 307, 404}},
		"up, encoded":            {"GET /ops/outbox/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd" + rest + "\r\n", []int{301, 307, 404}},
		"up, encoded twice":      {"GET /ops/outbox/assets/%252e%252e%252fetc%252fpasswd" + rest + "\r\n", []int{404}},
		"NUL in the path":        {"GET /ops/outbox/assets/style.css%00.html" + rest + "\r\n", []int{404}},
		"out of the base path":   {"GET /ops/outbox/../../dead-letters" + rest + "\r\n", []int{301, 307, 404}},
		"a host as a path":       {"GET //evil.example/" + rest + "\r\n", []int{301, 307, 404}},
		"below the base path":    {"GET /ops/outbox//evil.example/" + rest + "\r\n", []int{301, 307, 404}},
		"with a backslash":       {"GET /ops/outbox/\\evil.example" + rest + "\r\n", []int{301, 307, 400, 404}},
		"with dots":              {"GET /ops/outbox//evil.example/%2e%2e" + rest + "\r\n", []int{301, 307, 404}},
		"half an escape":         {"GET /ops/outbox/%zz" + rest + "\r\n", []int{400}},
		"half an escape, query":  {"GET /ops/outbox/dead-letters?type=%zz" + rest + "\r\n", []int{400}},
		"a semicolon":            {"GET /ops/outbox/dead-letters?type=order_canceled;reason=max_attempts" + rest + "\r\n", []int{400}},
	} {
		status, header, body := b.raw(tc.text)
		require.Contains(t, tc.want, status, "%s: %.300s", name, body)
		require.NotRegexp(t, `^(https?:)?[/\\]{2}`, header.Get("Location"), name)
		require.Empty(t, header.Get("Access-Control-Allow-Origin"), name)
		require.NotContains(t, body, "root:", name)
		if to := header.Get("Location"); to != "" {
			require.True(t, strings.HasPrefix(to, "/ops/outbox/") || !strings.HasPrefix(tc.text, "GET /ops/outbox"), "%s leads to %s", name, to)
		}
	}
	require.Equal(t, before, b.count(`SELECT (SELECT count(*) FROM outbox_plans) + (SELECT count(*) FROM outbox_audit)`))
}

// What was revealed to one request is in no later answer, and no cache between may keep any.
func TestNothingRevealedIsKept(t *testing.T) {
	b := setup(t, revealing)
	for _, file := range []string{"", "1"} {
		status, header, body := b.send(http.MethodPost, "/dead-letters/"+deadID+"/reveal", formType, "note=x&file="+file)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, body, secret)
		require.Equal(t, "no-store", header.Get("Cache-Control"))
		require.Empty(t, header.Get("ETag")+header.Get("Last-Modified")+header.Get("Location"))
	}
	for _, address := range slices.Concat(b.addresses(), []string{"/dead-letters/" + deadID, "/parts/dead-letters/" + deadID, "/dead-letters/" + deadID + "/reveal"}) {
		_, _, body := b.get(address)
		require.NotContains(t, body, secret, address)
	}
}

// A request that comes with many others is told to come again; what needs no connection is answered meanwhile.
func TestTooManyRequestsAreNotKeptWaiting(t *testing.T) {
	b := setup(t, func(c *ui.Config) { c.QueryTimeout = time.Second })
	b.handler.Occupy()
	for address, want := range map[string]int{"/dead-letters": 429, "/audit": 429, "/parts/events": 429, "/": 200, "/causes": 200, "/settings": 200} {
		status, header, body := b.get(address)
		require.Equal(t, want, status, "%s: %s", address, body)
		require.Equal(t, want == http.StatusTooManyRequests, header.Get("Retry-After") != "", address)
	}
}

// Behind a proxy that speaks https, what came by http is led there, to our own name and the same address, and nowhere else.
func TestHTTPSIsForced(t *testing.T) {
	public, err := url.Parse("https://ops.example.com")
	require.NoError(t, err)
	b := setup(t, func(c *ui.Config) { operators(c); c.PublicURL, c.BasePath = public, "/ops/outbox" })
	const by = " HTTP/1.1\r\nHost: ops.example.com\r\nConnection: close\r\n"
	const plain = by + "X-Forwarded-Proto: http\r\n\r\n"
	for line, want := range map[string]struct {
		status int
		to     string
	}{
		"GET /ops/outbox/dead-letters?type=order_canceled" + plain:   {308, "https://ops.example.com/ops/outbox/dead-letters?type=order_canceled"},
		"GET //evil.example/" + plain:                                {308, "https://ops.example.com//evil.example/"},
		"GET .evil.example/" + plain:                                 {400, ""},
		"GET http://evil.example/" + plain:                           {421, ""},
		"GET /ops/outbox/" + by + "X-Forwarded-Proto: https\r\n\r\n": {200, ""},
		"POST /ops/outbox/plans" + by + "Origin: https://ops.example.com\r\nX-Forwarded-Proto: http\r\nContent-Length: 0\r\n\r\n": {403, ""},
	} {
		status, header, body := b.raw(line)
		require.Equal(t, want.status, status, "%s: %.300s", line, body)
		require.Equal(t, want.to, header.Get("Location"), line)
		if status != http.StatusBadRequest {
			require.Equal(t, "max-age=31536000", header.Get("Strict-Transport-Security"), line)
		}
	}
}

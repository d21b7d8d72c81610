package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/ui"
)

// signedIn serves a page over the database with a way to sign in.
func signedIn(t *testing.T, s *site, method signin.Method) *site {
	t.Helper()
	return serve(t, s.db, below(func(c *ui.Config) {
		withChanges(c)
		c.Identify, c.Challenge = method.Identify, method.Challenge()
		if link, ok := method.(*signin.Link); ok {
			c.Enter = link.Enter
		}
	}))
}

// refused sees that the page shows nothing to a user who is not signed in.
func (b *tab) refused(why string) {
	b.t.Helper()
	b.open("/dead-letters")
	require.Equal(b.t, "Sign in", js[string](b, `document.querySelector("h1").textContent`), why)
	require.False(b.t, js[bool](b, `/payment_settled|DeadlineExceeded/.test(document.documentElement.outerHTML)`), why)
	require.Zero(b.t, js[int](b, `document.querySelectorAll(".menu span").length`), "no figure is told: %s", why)
}

// admitted sees the page as a user who may change things.
func (b *tab) admitted(name string) {
	b.t.Helper()
	b.open("/dead-letters")
	b.seeText("payment_settled")
	b.seeText(name + " · Operator")
}

func (b *tab) header(name, value string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{name: value}})
	require.NoError(b.t, err)
}

// Each way to sign in lets in whom it should, and shows nothing to others.
func TestEachWayToSignIn(t *testing.T) {
	t.Parallel()
	world := newSite(t, nil)
	expected := []string{"answered 401", "status of 401"}

	open := newTab(t, signedIn(t, world, signin.None{Name: "ann", Role: ui.Operator}).url)
	open.admitted("ann")

	link := &signin.Link{Token: signin.NewToken(), Name: "ann", Role: ui.Operator, Port: "1", Path: "/ops/outbox", Now: time.Now}
	b := newTab(t, signedIn(t, world, link).url)
	b.expect(expected...)
	b.refused("without the link")
	b.open("/?token=" + signin.NewToken())
	b.refused("with another token")
	b.open(link.URL("/"))
	b.at("/")
	b.admitted("ann")
	require.Empty(t, js[string](b, "document.cookie"), "no script reads the cookie")
	b.another().admitted("ann")
	stranger := newTab(t, b.base)
	stranger.expect(expected...)
	stranger.refused("another browser")

	// The hash is of "right", at the lowest cost.
	users, err := signin.ParseUsers("ann:operator:$2a$04$RgwVJHDNpDYbkIz29S46geY4cDXYmSymc5tSypwVSYib3XdYHJqr2")
	require.NoError(t, err)
	site := signedIn(t, world, users)
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+password))
	}
	// The browser would ask with a window of its own, which is not answered here.
	require.Equal(t, http.StatusUnauthorized, site.status(http.MethodGet, "/"))
	require.Equal(t, http.StatusUnauthorized, site.status(http.MethodGet, "/", "Authorization", basic("wrong")))
	b = newTab(t, site.url)
	b.header("Authorization", basic("right"))
	b.admitted("ann")

	p := newProxy(t)
	b = newTab(t, signedIn(t, world, p.method()).url)
	b.expect(expected...)
	b.header("X-Goog-Authenticated-User-Email", "ann@example.com")
	b.refused("with a header that any client can set")
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	for why, token := range map[string]string{
		"for another audience": p.token("k1", es256(p.key), "ES256", "aud", "/projects/2/apps/x"),
		"that has expired":     p.token("k1", es256(p.key), "ES256", "exp", time.Now().Add(-time.Minute).Unix()),
		"of an unknown key":    p.token("k9", es256(other), "ES256"),
		"of a forged key":      p.token("k1", es256(other), "ES256"),
		"HS256 with our key": p.token("k1", func(text []byte) []byte {
			mac := hmac.New(sha256.New, p.public())
			mac.Write(text)
			return mac.Sum(nil)
		}, "HS256"),
	} {
		b.header("X-Goog-IAP-JWT-Assertion", token)
		b.refused("with a token " + why)
	}
	b.header("X-Goog-IAP-JWT-Assertion", p.token("k1", es256(p.key), "ES256"))
	b.admitted("ann@example.com")
}

// proxy vouches for people by signed tokens.
type proxy struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	keys *httptest.Server
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p := &proxy{t: t, key: key}
	p.keys = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		point := p.public()
		_, _ = fmt.Fprintf(w, `{"keys": [{"kty": "EC", "crv": "P-256", "kid": "k1", "alg": "ES256", "use": "sig", "x": %q, "y": %q}]}`, encode(point[1:33]), encode(point[33:]))
	}))
	t.Cleanup(p.keys.Close)
	return p
}

func (p *proxy) method() *signin.JWT {
	p.t.Helper()
	params := signin.JWTParams{Preset: "iap", KeysURL: p.keys.URL, Audience: "/projects/1/apps/x", Operators: []string{"ann@example.com"}, Now: time.Now}
	require.Empty(p.t, params.Complete())
	return signin.NewJWT(params)
}

// public is the key as a point: 4, x and y.
func (p *proxy) public() []byte {
	p.t.Helper()
	point, err := p.key.PublicKey.Bytes()
	require.NoError(p.t, err)
	return point
}

// token signs the claims of ann, some of them changed.
func (p *proxy) token(id string, sign func([]byte) []byte, alg string, changed ...any) string {
	p.t.Helper()
	claims := map[string]any{"iss": "https://cloud.google.com/iap", "aud": "/projects/1/apps/x", "sub": "1", "email": "ann@example.com", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for i := 0; i+1 < len(changed); i += 2 {
		claims[fmt.Sprint(changed[i])] = changed[i+1]
	}
	head, err := json.Marshal(map[string]string{"alg": alg, "kid": id})
	require.NoError(p.t, err)
	body, err := json.Marshal(claims)
	require.NoError(p.t, err)
	text := encode(head) + "." + encode(body)
	return text + "." + encode(sign([]byte(text)))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// es256 signs as ES256 wants it: r and s, 32 bytes each.
func es256(key *ecdsa.PrivateKey) func([]byte) []byte {
	return func(text []byte) []byte {
		digest := sha256.Sum256(text)
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		if err != nil {
			return nil
		}
		out := make([]byte, 64)
		r.FillBytes(out[:32])
		s.FillBytes(out[32:])
		return out
	}
}

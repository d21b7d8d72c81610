package signin_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/ui"
)

func request(t *testing.T, target string, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestALinkSignsABrowserIn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	link := &signin.Link{Token: signin.NewToken(), Name: "ann", Role: ui.Operator, Port: "9466", Path: "/ops", Now: func() time.Time { return now }}
	require.Len(t, link.Token, 64)
	_, err := link.Identify(request(t, "/"))
	require.ErrorIs(t, err, ui.ErrNotSignedIn)

	for _, wrong := range []string{"/?token=", "/?token=" + signin.NewToken(), "/"} {
		require.False(t, link.Enter(httptest.NewRecorder(), request(t, wrong)), wrong)
	}
	answer := httptest.NewRecorder()
	require.True(t, link.Enter(answer, request(t, link.URL("//evil.example/causes")+"&by=type")))
	require.Equal(t, "/ops/evil.example/causes?by=type", answer.Header().Get("Location"), "the token is gone, and no other host is named")
	cookie := answer.Result().Cookies()[0]
	require.Equal(t, []any{"outboxctl_9466", "/ops", true, http.SameSiteStrictMode, 12 * 3600}, []any{cookie.Name, cookie.Path, cookie.HttpOnly, cookie.SameSite, cookie.MaxAge})
	require.NotContains(t, cookie.Value, link.Token)

	signed := request(t, "/")
	signed.AddCookie(cookie)
	who, err := link.Identify(signed)
	require.NoError(t, err)
	require.Equal(t, ui.Identity{Name: "ann", Role: ui.Operator, Auth: "link"}, who)
	now = now.Add(13 * time.Hour)
	_, err = link.Identify(signed)
	require.ErrorIs(t, err, ui.ErrNotSignedIn, "it has ended")
	forged := request(t, "/")
	until, signature, _ := strings.Cut(cookie.Value, ".")
	forged.AddCookie(&http.Cookie{Name: cookie.Name, Value: until + "0." + signature})
	_, err = link.Identify(forged)
	require.ErrorIs(t, err, ui.ErrNotSignedIn, "a later end needs another signature")
	_, err = link.Identify(request(t, "/", "Authorization", "Bearer "+link.Token))
	require.NoError(t, err)
}

func TestUsersSignIn(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte("script-token"))
	users, err := signin.ParseUsers("# ours\nann:operator:" + string(hash) + "\n\nci:viewer:sha256:" + hex.EncodeToString(sum[:]) + "\n")
	require.NoError(t, err)
	basic := func(name, password, from string) *http.Request {
		r := request(t, "/", "X-Forwarded-For", "203.0.113.9", "X-Forwarded-User", "ann")
		r.SetBasicAuth(name, password)
		r.RemoteAddr = from
		return r
	}
	who, err := users.Identify(basic("ann", "right", "192.0.2.1:1"))
	require.NoError(t, err)
	require.Equal(t, ui.Identity{Name: "ann", Role: ui.Operator, Auth: "users"}, who)
	who, err = users.Identify(request(t, "/", "Authorization", "Bearer script-token"))
	require.NoError(t, err)
	require.Equal(t, ui.Identity{Name: "ci", Role: ui.Viewer, Auth: "users"}, who)
	for _, r := range []*http.Request{
		basic("ann", "wrong", "192.0.2.2:1"), basic("bob", "right", "192.0.2.2:1"), basic("ci", "script-token", "192.0.2.2:1"), basic("", "", "192.0.2.2:1"),
		request(t, "/", "Authorization", "Bearer right"), request(t, "/", "X-Forwarded-User", "ann"), request(t, "/"),
	} {
		_, err := users.Identify(r)
		require.ErrorIs(t, err, ui.ErrNotSignedIn)
	}
}

// asUser is a request with a name and a password.
func asUser(t *testing.T, name, password string) *http.Request {
	t.Helper()
	r := request(t, "/")
	r.SetBasicAuth(name, password)
	return r
}

// Guesses that come all at once are checked two at a time, those of made-up names too. The others wait, and not for ever.
func TestTwoPasswordsAreCheckedAtATime(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		users, err := signin.ParseUsers("ann:operator:" + string(hash))
		require.NoError(t, err)
		var checked atomic.Int64
		next := make(chan struct{})
		users.Compare(func([]byte, []byte) error { checked.Add(1); <-next; return errors.New("wrong") })
		guess := func(i int) error {
			_, err := users.Identify(asUser(t, []string{"ann", "made-up"}[i%2], fmt.Sprint("guess", i)))
			return err
		}
		var guesses sync.WaitGroup
		answers := make([]error, 6)
		for i := range answers {
			guesses.Go(func() { answers[i] = guess(i) })
		}
		for _, want := range []int64{2, 3, 4} {
			synctest.Wait()
			require.Equal(t, want, checked.Load())
			next <- struct{}{}
		}
		synctest.Wait()
		require.EqualValues(t, 5, checked.Load())
		require.ErrorIs(t, guess(7), ui.ErrBusy, "after a while it is told to come again")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = users.Identify(asUser(t, "ann", "right").WithContext(gone))
		require.ErrorIs(t, err, context.Canceled)
		close(next)
		guesses.Wait()
		busy := 0
		for _, err := range answers {
			if errors.Is(err, ui.ErrBusy) {
				busy++
				continue
			}
			require.ErrorIs(t, err, ui.ErrNotSignedIn)
		}
		require.Equal(t, 1, busy, "the last waited as long")
	})
}

// However many guess a name, its owner signs in; and who has signed in does not wait behind them.
func TestGuessesLockNobodyOut(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	require.NoError(t, err)
	users, err := signin.ParseUsers("ann:operator:" + string(hash))
	require.NoError(t, err)
	for i := range 200 {
		_, err := users.Identify(asUser(t, "ann", fmt.Sprint("guess", i)))
		require.ErrorIs(t, err, ui.ErrNotSignedIn)
	}
	_, err = users.Identify(asUser(t, "ann", "right"))
	require.NoError(t, err)
	users.Compare(func([]byte, []byte) error { return errors.New("it was checked again") })
	who, err := users.Identify(asUser(t, "ann", "right"))
	require.NoError(t, err)
	require.Equal(t, ui.Identity{Name: "ann", Role: ui.Operator, Auth: "users"}, who)
	_, err = users.Identify(asUser(t, "ann", "wrong"))
	require.ErrorIs(t, err, ui.ErrNotSignedIn, "right for one password only")
}

func TestUsersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, err := signin.ParseUsers("ann\nbob:admin:x\ncyd:viewer:hunter2\ndan:viewer:sha256:12")
	require.EqualError(t, err, "line 1: must be name:role:hash\nline 2: the role is neither viewer nor operator\nline 3: the hash is not one of bcrypt, such as htpasswd -nB -C 12 makes\nline 4: the hash of the token is not 64 hexadecimal digits")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = signin.ParseUsers("# no user\n")
	require.EqualError(t, err, "names no user")
}

// proxy signs tokens as an identity-aware proxy does.
type proxy struct {
	*testing.T
	keys    *httptest.Server
	fetches atomic.Int64
	key     *ecdsa.PrivateKey
	now     time.Time
	down    atomic.Bool
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{T: t, now: time.Now().Truncate(time.Second)}
	var err error
	p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p.keys = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.fetches.Add(1)
		if p.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &p.key.PublicKey, KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
	}))
	t.Cleanup(p.keys.Close)
	return p
}

func (p *proxy) method() *signin.JWT {
	p.Helper()
	params := signin.JWTParams{
		Preset: "iap", KeysURL: p.keys.URL, Audience: "/projects/1/apps/x", Operators: []string{"ann@example.com", "*@ops.example.com"}, Now: func() time.Time { return p.now },
	}
	require.Empty(p, params.Complete())
	return signin.NewJWT(params)
}

func (p *proxy) token(alg jose.SignatureAlgorithm, key any, id string, change func(map[string]any)) string {
	p.Helper()
	claims := map[string]any{"iss": "https://cloud.google.com/iap", "aud": "/projects/1/apps/x", "sub": "1", "email": "ann@example.com", "iat": p.now.Unix(), "exp": p.now.Add(10 * time.Minute).Unix()}
	if change != nil {
		change(claims)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	require.NoError(p, err)
	doc, err := json.Marshal(claims)
	require.NoError(p, err)
	signed, err := signer.Sign(doc)
	require.NoError(p, err)
	text, err := signed.CompactSerialize()
	require.NoError(p, err)
	return text
}

func TestAProxyVouchesForPeople(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	method := p.method()
	ask := func(token string) (ui.Identity, error) {
		return method.Identify(request(t, "/", "X-Goog-IAP-JWT-Assertion", token, "X-Goog-Authenticated-User-Email", "accounts.google.com:ann@example.com"))
	}
	who, err := ask(p.token(jose.ES256, p.key, "k1", nil))
	require.NoError(t, err)
	require.Equal(t, ui.Identity{Name: "ann@example.com", Role: ui.Operator, Auth: "jwt"}, who)
	for name, want := range map[string]ui.Role{"eve@ops.example.com": ui.Operator, "eve@example.com": ui.Viewer, "ann@example.com.evil.example": ui.Viewer} {
		who, err := ask(p.token(jose.ES256, p.key, "k1", func(c map[string]any) { c["email"] = name }))
		require.NoError(t, err)
		require.Equal(t, want, who.Role, name)
	}

	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	public, err := json.Marshal(jose.JSONWebKey{Key: &p.key.PublicKey})
	require.NoError(t, err)
	good := p.token(jose.ES256, p.key, "k1", nil)
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"none":                       "",
		"not a token":                "x.y.z",
		"another audience":           p.token(jose.ES256, p.key, "k1", func(c map[string]any) { c["aud"] = "/projects/2/apps/x" }),
		"no audience":                p.token(jose.ES256, p.key, "k1", func(c map[string]any) { delete(c, "aud") }),
		"another issuer":             p.token(jose.ES256, p.key, "k1", func(c map[string]any) { c["iss"] = "https://evil.example" }),
		"expired":                    p.token(jose.ES256, p.key, "k1", func(c map[string]any) { c["exp"] = p.now.Add(-time.Minute).Unix() }),
		"not yet":                    p.token(jose.ES256, p.key, "k1", func(c map[string]any) { c["nbf"] = p.now.Add(time.Hour).Unix() }),
		"no name":                    p.token(jose.ES256, p.key, "k1", func(c map[string]any) { delete(c, "email") }),
		"another key of the same id": p.token(jose.ES256, other, "k1", nil),
		"an unknown key":             p.token(jose.ES256, other, "k9", nil),
		"HS256 with the public key":  p.token(jose.HS256, public, "k1", nil),
		"no algorithm":               "eyJhbGciOiJub25lIn0." + parts[1] + ".",
		"another text":               parts[0] + "." + parts[1] + "x." + parts[2],
	} {
		_, err := ask(token)
		require.ErrorIs(t, err, ui.ErrNotSignedIn, name)
	}
	_, err = method.Identify(request(t, "/", "X-Goog-Authenticated-User-Email", "accounts.google.com:ann@example.com", "X-Forwarded-User", "ann@example.com"))
	require.ErrorIs(t, err, ui.ErrNotSignedIn, "a header without a signature is not believed")
}

// Tokens with made-up keys do not become requests to the publisher of the keys.
func TestTheKeySetIsFetchedAtALimitedPace(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	method := p.method()
	ask := func(id string) error {
		_, err := method.Identify(request(t, "/", "X-Goog-IAP-JWT-Assertion", p.token(jose.ES256, p.key, id, nil)))
		return err
	}
	p.down.Store(true)
	require.NotErrorIs(t, ask("k1"), ui.ErrNotSignedIn, "that the keys cannot be read is not the fault of who signs in")
	for range 50 {
		require.Error(t, ask("k1"))
	}
	require.EqualValues(t, 1, p.fetches.Load())
	p.down.Store(false)
	p.now = p.now.Add(time.Minute)
	require.NoError(t, ask("k1"))
	for range 50 {
		require.ErrorIs(t, ask("made-up"), ui.ErrNotSignedIn)
	}
	require.EqualValues(t, 2, p.fetches.Load())
	p.now = p.now.Add(time.Minute)
	require.ErrorIs(t, ask("made-up"), ui.ErrNotSignedIn)
	require.EqualValues(t, 3, p.fetches.Load())
}

// A key that the proxy withdrew is not believed for ever because its key set cannot be read.
func TestOldKeysAreNotBelievedForEver(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	method := p.method()
	ask := func() error {
		_, err := method.Identify(request(t, "/", "X-Goog-IAP-JWT-Assertion", p.token(jose.ES256, p.key, "k1", nil)))
		return err
	}
	require.NoError(t, ask())
	p.down.Store(true)
	p.now = p.now.Add(6 * time.Hour)
	require.NoError(t, ask(), "a proxy that is away for a while locks nobody out")
	require.EqualValues(t, 2, p.fetches.Load())
	p.now = p.now.Add(time.Minute)
	for range 2 { // also when it is not fetched again
		err := ask()
		require.ErrorContains(t, err, "no longer believed")
		require.NotErrorIs(t, err, ui.ErrNotSignedIn)
	}
	p.down.Store(false)
	p.now = p.now.Add(time.Minute)
	require.NoError(t, ask())
}

// The address of the keys may be on this machine, not merely look like it, and it must not lead to one that is neither.
func TestKeysComeFromASafeAddress(t *testing.T) {
	t.Parallel()
	problems := func(keys string) string {
		params := signin.JWTParams{Preset: "iap", Audience: "x", KeysURL: keys}
		return strings.Join(params.Complete(), "; ")
	}
	for _, keys := range []string{
		"http://127.0.0.1.evil.example", "http://127.0.0.1@evil.example/keys", "http://127.0.0.1:80@evil.example", "http://127.0.0.10.evil.example/", "http://keys.example", "http://localhost.evil.example",
		"https://", "https:keys.example", "https:///keys", "ftp://127.0.0.1/keys", "file:///etc/keys", "http://127.0.0.1:port/", "http://0x7f.1/keys", "127.0.0.1",
	} {
		require.Contains(t, problems(keys), "ui.jwt.jwks_url: must be an https address", keys)
	}
	for _, keys := range []string{"https://keys.example", "http://127.0.0.1", "http://127.0.0.1:8080/keys", "http://127.8.9.1/", "http://[::1]:8080/keys"} {
		require.Empty(t, problems(keys), keys)
	}

	p := newProxy(t)
	p.keys.Config.Handler = http.RedirectHandler("http://127.0.0.1.evil.example/keys", http.StatusFound)
	_, err := p.method().Identify(request(t, "/", "X-Goog-IAP-JWT-Assertion", p.token(jose.ES256, p.key, "k1", nil)))
	require.ErrorContains(t, err, "which is no https address")
}

func TestSettingsOfAProxyThatAreNotSafe(t *testing.T) {
	t.Parallel()
	for want, params := range map[string]signin.JWTParams{
		"ui.jwt.audience: is required": {Preset: "iap"},
		"HS256 is not an algorithm":    {Preset: "iap", Audience: "x", Algs: []string{"ES256", "HS256"}},
		"none is not an algorithm":     {Preset: "iap", Audience: "x", Algs: []string{"none"}},
		"must be an https address":     {Audience: "x", Header: "x", Issuer: "x", KeysURL: "http://keys.example", Algs: []string{"RS256"}},
		"ui.jwt.issuer: is required":   {Preset: "cloudflare", Audience: "x"},
		"is not a pattern":             {Preset: "iap", Audience: "x", Operators: []string{"["}},
	} {
		require.Contains(t, strings.Join(params.Complete(), "\n"), want)
	}
	cloudflare := signin.JWTParams{Preset: "cloudflare", Issuer: "https://team.cloudflareaccess.com", Audience: "x"}
	require.Empty(t, cloudflare.Complete())
	require.Equal(t, []string{"https://team.cloudflareaccess.com/cdn-cgi/access/certs", "Cf-Access-Jwt-Assertion", "email"}, []string{cloudflare.KeysURL, cloudflare.Header, cloudflare.Claim})
}

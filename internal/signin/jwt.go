package signin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	// keysEvery is the shortest time between two fetches of the key set: tokens with made-up keys must
	// not become requests.
	keysEvery = 30 * time.Second
	// keysLife is how long a key set is believed without being fetched again, and keysTrusted how long
	// while it cannot be: the proxy may have withdrawn a key that was stolen.
	keysLife    = time.Hour
	keysTrusted = 6 * time.Hour
	keysTimeout = 5 * time.Second
	keysSize    = 1 << 20
)

// JWTParams is how a proxy vouches for people.
type JWTParams struct {
	// Preset fills in what a known proxy uses: iap or cloudflare.
	Preset string
	// Header has the token; of Authorization, what follows Bearer.
	Header string
	// KeysURL is where the proxy publishes its keys (JWKS).
	KeysURL  string
	Issuer   string
	Audience string
	Algs     []string
	// Claim is the name of the person in the token.
	Claim string
	// Operators are the names that may change things; * stands for any text.
	Operators []string
	Now       func() time.Time
}

// Complete fills in what the preset knows and reports everything that is missing or not safe.
func (p *JWTParams) Complete() (problems []string) {
	switch p.Preset {
	case "iap":
		p.fill("X-Goog-IAP-JWT-Assertion", "https://www.gstatic.com/iap/verify/public_key-jwk", "https://cloud.google.com/iap", "ES256")
	case "cloudflare":
		p.fill("Cf-Access-Jwt-Assertion", strings.TrimRight(p.Issuer, "/")+"/cdn-cgi/access/certs", "", "RS256")
	}
	p.Claim = cmp.Or(p.Claim, "email")
	for name, value := range map[string]string{"ui.jwt.header": p.Header, "ui.jwt.issuer": p.Issuer} {
		if value == "" {
			problems = append(problems, name+": is required with ui.auth jwt")
		}
	}
	if p.Audience == "" {
		problems = append(problems, "ui.jwt.audience: is required: without it a token for any other service of the same issuer would be believed")
	}
	if keys, err := url.Parse(p.KeysURL); err != nil || !safeKeys(keys) {
		problems = append(problems, "ui.jwt.jwks_url: must be an https address; http is for an address of this machine such as http://127.0.0.1:8080/keys")
	}
	if len(p.Algs) == 0 {
		problems = append(problems, "ui.jwt.algs: is required, such as RS256 or ES256")
	}
	for _, alg := range p.Algs {
		if !slices.Contains([]string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}, alg) {
			problems = append(problems, fmt.Sprintf("ui.jwt.algs: %s is not an algorithm with a public key", alg))
		}
	}
	for _, pattern := range p.Operators {
		if _, err := path.Match(pattern, ""); err != nil {
			problems = append(problems, fmt.Sprintf("ui.operators: %q is not a pattern such as *@example.com", pattern))
		}
	}
	slices.Sort(problems)
	return problems
}

// safeKeys reports whether keys come unchanged from an address: nobody is between this process and
// its own machine.
func safeKeys(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "" && (u.Scheme == "https" || u.Scheme == "http" && ip != nil && ip.IsLoopback())
}

func (p *JWTParams) fill(header, keys, issuer, alg string) {
	p.Header, p.KeysURL, p.Issuer = cmp.Or(p.Header, header), cmp.Or(p.KeysURL, keys), cmp.Or(p.Issuer, issuer)
	if len(p.Algs) == 0 {
		p.Algs = []string{alg}
	}
}

// JWT lets in whom a proxy vouches for by a signed token in a header.
type JWT struct {
	bearing

	params   JWTParams
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

// NewJWT checks tokens as params say, which Complete has found nothing wrong with.
func NewJWT(p JWTParams) *JWT {
	keys := &keySet{url: p.KeysURL, algs: p.Algs, now: p.Now, client: &http.Client{Timeout: keysTimeout, CheckRedirect: safeRedirect}}
	return &JWT{params: p, keys: keys, verifier: oidc.NewVerifier(p.Issuer, keys, &oidc.Config{
		ClientID: p.Audience, SupportedSigningAlgs: p.Algs, Now: p.Now,
	})}
}

// safeRedirect follows to where keys may be fetched from, not to where anyone could change them on
// the way.
func safeRedirect(to *http.Request, via []*http.Request) error {
	if !safeKeys(to.URL) {
		return fmt.Errorf("it leads to %s, which is no https address", to.URL.Redacted())
	}
	if len(via) >= 10 {
		return errors.New("it leads on and on")
	}
	return nil
}

// Identify implements Method.
func (j *JWT) Identify(r *http.Request) (ui.Identity, error) {
	text := r.Header.Get(j.params.Header)
	if strings.EqualFold(j.params.Header, "Authorization") {
		text, _ = bearerOf(r)
	}
	if text == "" {
		return ui.Identity{}, fault.Hint(fmt.Errorf("%w: the request has no token of the proxy", ui.ErrNotSignedIn), "come by the address of the proxy, which asks you to sign in")
	}
	token, err := j.verifier.Verify(r.Context(), text)
	if unread := j.keys.unread(); err != nil && unread != nil {
		return ui.Identity{}, unread // not the fault of who signs in; the library loses what kind of error it was
	}
	if err != nil {
		return ui.Identity{}, fmt.Errorf("%w: the token of the proxy is not valid: %w", ui.ErrNotSignedIn, err)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return ui.Identity{}, fmt.Errorf("%w: the token cannot be read: %w", ui.ErrNotSignedIn, err)
	}
	name, _ := claims[j.params.Claim].(string)
	if name == "" {
		return ui.Identity{}, fmt.Errorf("%w: the token has no claim %s", ui.ErrNotSignedIn, j.params.Claim)
	}
	who := ui.Identity{Name: name, Role: ui.Viewer, Auth: way.JWT}
	if slices.ContainsFunc(j.params.Operators, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
		who.Role = ui.Operator
	}
	return who, nil
}

// keySet is the public keys of a proxy. Unlike that of the library it fetches them at a limited
// pace, whatever tokens ask for.
type keySet struct {
	url    string
	algs   []string
	now    func() time.Time
	client *http.Client

	mu      sync.Mutex
	keys    jose.JSONWebKeySet
	fetched time.Time
	tried   time.Time
	err     error
}

// VerifySignature implements oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	algs := make([]jose.SignatureAlgorithm, len(k.algs))
	for i, alg := range k.algs {
		algs[i] = jose.SignatureAlgorithm(alg)
	}
	signed, err := jose.ParseSignedCompact(text, algs)
	if err != nil {
		return nil, err
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("it has not one signature")
	}
	for _, key := range k.find(ctx, signed.Signatures[0].Header.KeyID) {
		if payload, err := signed.Verify(key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the proxy signed it")
}

// find returns the keys with an id, and fetches the set when it is old or has no such key, but not
// again and again.
func (k *keySet) find(ctx context.Context, id string) []jose.JSONWebKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	found := k.keys.Key(id)
	if old := now.Sub(k.fetched) > keysLife; (len(found) == 0 || old) && now.Sub(k.tried) >= keysEvery {
		k.tried = now
		if k.err = k.fetch(ctx); k.err == nil {
			k.fetched = now
		}
		found = k.keys.Key(id)
	}
	if now.Sub(k.fetched) > keysTrusted {
		return nil
	}
	return found
}

// unread is why there is no set, or none that is still believed.
func (k *keySet) unread() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.err == nil || k.now().Sub(k.fetched) <= keysTrusted:
		return nil
	case k.fetched.IsZero():
		return fault.Preconditionf("read the key set of the proxy: %w", k.err)
	}
	return fault.Preconditionf("read the key set of the proxy, which is of %s and no longer believed: %w", k.fetched.UTC().Format(time.RFC3339), k.err)
}

func (k *keySet) fetch(ctx context.Context) error {
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, k.url, nil)
	if err != nil {
		return err
	}
	response, err := k.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", k.url, response.Status)
	}
	var keys jose.JSONWebKeySet
	if err := json.NewDecoder(io.LimitReader(response.Body, keysSize)).Decode(&keys); err != nil {
		return fmt.Errorf("%s: %w", k.url, err)
	}
	k.keys = keys
	return nil
}

package signin

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/ui"
)

// linkLife is how long a browser stays signed in. Cookies ignore ports, so another server of this
// machine may see it.
const linkLife = 12 * time.Hour

const linkField = "token"

// Link lets in who has the link that was printed when the page started.
type Link struct {
	bearing

	// Token is 256 random bits.
	Token string
	// Name and Role are of who comes in: the person who runs the process.
	Name string
	Role ui.Role
	// Port names the cookie, Path limits it to the page.
	Port, Path string
	Now        func() time.Time

	// once is a token that is good for one entrance.
	once atomic.Pointer[string]
}

// NewToken makes a token for a link.
func NewToken() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it never fails
	return hex.EncodeToString(secret[:])
}

// URL is an address with the token.
func (l *Link) URL(address string) string { return address + "?" + linkField + "=" + l.Token }

// OnceURL is an address that lets in once. It is for the command line of a browser, which all users
// of the machine may see.
func (l *Link) OnceURL(address string) string {
	token := NewToken()
	l.once.Store(&token)
	return (&Link{Token: token}).URL(address)
}

func (l *Link) accepts(token string) bool {
	if once := l.once.Load(); once != nil && same(token, *once) {
		return l.once.CompareAndSwap(once, nil)
	}
	return same(token, l.Token)
}

func (l *Link) cookie() string { return "outboxctl_" + l.Port }

// Enter answers the link itself: it signs the browser in and leads to the address without the
// token.
func (l *Link) Enter(w http.ResponseWriter, r *http.Request) (answered bool) {
	q := r.URL.Query()
	if r.Method != http.MethodGet || !q.Has(linkField) || !l.accepts(q.Get(linkField)) {
		return false
	}
	until := l.Now().Add(linkLife)
	seal := http.Cookie{Value: l.seal(until), Expires: until, MaxAge: int(linkLife.Seconds())}
	l.setCookie(w, r, seal)
	q.Del(linkField)
	// One slash: two would name another host.
	to := url.URL{Path: l.Path + "/" + strings.TrimLeft(r.URL.Path, "/"), RawQuery: q.Encode()}
	http.Redirect(w, r, to.RequestURI(), http.StatusSeeOther)
	return true
}

// Leave ends what Enter began.
func (l *Link) Leave(w http.ResponseWriter, r *http.Request) {
	l.setCookie(w, r, http.Cookie{MaxAge: -1})
}

func (l *Link) setCookie(w http.ResponseWriter, r *http.Request, c http.Cookie) {
	c.Name, c.Path, c.Secure = l.cookie(), cmp.Or(l.Path, "/"), r.TLS != nil
	c.HttpOnly, c.SameSite = true, http.SameSiteStrictMode
	http.SetCookie(w, &c)
}

// Identify implements Method. Scripts send the token as a Bearer.
func (l *Link) Identify(r *http.Request) (ui.Identity, error) {
	who := ui.Identity{Name: l.Name, Role: l.Role, Auth: way.Link}
	if token, ok := bearerOf(r); ok && same(token, l.Token) {
		return who, nil
	}
	if c, err := r.Cookie(l.cookie()); err == nil && l.opens(c.Value) {
		return who, nil
	}
	return ui.Identity{}, fault.Hint(fmt.Errorf("%w: this page needs the link that was printed when it started", ui.ErrNotSignedIn),
		"open the address with ?%s= in it; scripts send Authorization: Bearer", linkField)
}

// seal is the value of the cookie: when it ends, and a signature by the token.
func (l *Link) seal(until time.Time) string {
	text := strconv.FormatInt(until.Unix(), 10)
	return text + "." + l.sign(text)
}

func (l *Link) opens(value string) bool {
	text, signature, _ := strings.Cut(value, ".")
	until, err := strconv.ParseInt(text, 10, 64)
	return err == nil && same(signature, l.sign(text)) && l.Now().Before(time.Unix(until, 0))
}

func (l *Link) sign(text string) string {
	mac := hmac.New(sha256.New, []byte(l.Token))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// bearerOf is the token of a request's Authorization header.
func bearerOf(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "bearer")
}

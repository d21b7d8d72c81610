package ui

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/pgread"
)

// guard decides which requests are answered at all, and what browsers may do with the answers.
type guard struct {
	public   *url.URL
	crossing *http.CrossOriginProtection
}

func newGuard(cfg Config) *guard {
	g := &guard{public: cfg.PublicURL, crossing: http.NewCrossOriginProtection()}
	if g.public != nil {
		// A proxy may have rewritten Host, so that our pages would look foreign. A URL is valid.
		_ = g.crossing.AddTrustedOrigin(g.public.Scheme + "://" + g.public.Host)
	}
	return g
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// check sets the headers of every answer and refuses what must not be answered.
func (g *guard) check(w http.ResponseWriter, r *http.Request) error {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	secure := g.public != nil && g.public.Scheme == "https"
	if secure {
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
	if secure && r.Header.Get("X-Forwarded-Proto") == "http" {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			return statusError{http.StatusForbidden, fault.Refusedf("the request came without https: open https://%s", g.public.Host)}
		case strings.HasPrefix(r.RequestURI, "/"): // a request line may name a whole address, which would become a part of our name
			return elsewhere("https://" + g.public.Host + r.RequestURI)
		}
	}
	// A name that was made to lead here (DNS rebinding) is of the same site to a browser.
	if !g.knows(r.Host) {
		return statusError{http.StatusMisdirectedRequest, fault.Usagef("this page is not served under the name %q", r.Host)}
	}
	if err := g.crossing.Check(r); err != nil {
		return statusError{http.StatusForbidden, fault.Refusedf("the request comes from another site")}
	}
	return nil
}

// knows reports whether host is a name of ours: the public one, or this machine's.
func (g *guard) knows(host string) bool {
	if g.public != nil && strings.EqualFold(host, g.public.Host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// remoteOf is where a request came from, not what a header says of it.
func remoteOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// elsewhere is an address under which the request should come instead.
type elsewhere string

func (e elsewhere) Error() string { return "this page is served as " + string(e) }

// statusError is an error whose HTTP status does not follow from its kind.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

func statusOf(err error) int {
	if s, ok := errors.AsType[statusError](err); ok {
		return s.status
	}
	_, late := errors.AsType[*pgread.GaveUpError](err)
	switch {
	case errors.Is(err, ErrBusy):
		return http.StatusTooManyRequests
	case errors.Is(err, ErrNotSignedIn):
		return http.StatusUnauthorized
	case late:
		return http.StatusServiceUnavailable
	}
	switch kind, _ := fault.KindOf(err); kind {
	case fault.Usage:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Refused:
		return http.StatusForbidden
	case fault.Precondition, fault.Partial:
		return http.StatusConflict
	}
	_, away := errors.AsType[*pgconn.ConnectError](err)
	_, broken := errors.AsType[net.Error](err)
	pg, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case away || broken || errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	case pg == nil:
		return http.StatusInternalServerError
	// A statement took too long, or the server ends or has no connection left: later it answers.
	case pgerrcode.IsOperatorIntervention(pg.Code) || pgerrcode.IsInsufficientResources(pg.Code):
		return http.StatusServiceUnavailable
	// What the database cannot hold as text, such as NUL, came with the request.
	case pg.Code == pgerrcode.CharacterNotInRepertoire || pg.Code == pgerrcode.UntranslatableCharacter:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

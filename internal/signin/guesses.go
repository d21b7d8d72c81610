package signin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/ratelimit"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	// perPair is how many wrong passwords one address has for one name in a minute, and perName all
	// addresses together: more than one address may use up, so that one stranger alone locks nobody
	// out at another address.
	perPair = 20
	perName = 100
	// madeUp is how many names that do not exist have a password checked in a minute.
	madeUp = 60
)

// errGuessed is the answer to one guess too many.
var errGuessed = fault.Hint(fmt.Errorf("%w: too many wrong passwords for this name", ui.ErrBusy), "wait a minute; behind a proxy ui.trusted_proxies tells one client from another")

// guesses limits wrong passwords: those for a name from an address, and those for a name
// altogether. A limit of the address alone would let one stranger behind a proxy use it up for all
// others.
type guesses struct{ pair, name *ratelimit.PerName }

func newGuesses() guesses { return guesses{ratelimit.New(perPair), ratelimit.New(perName)} }

// left reports whether one more may be wrong.
func (g guesses) left(address, name string) bool {
	return g.pair.Of(address+" "+name).Tokens() >= 1 && g.name.Of(name).Tokens() >= 1
}

// wrong counts one that was.
func (g guesses) wrong(address, name string) {
	g.pair.Of(address + " " + name).Allow()
	g.name.Of(name).Allow()
}

// addressOf is where a request came from, without the port. Of IPv6 it is the network: one client
// has all of its addresses.
func addressOf(r *http.Request) string {
	address, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return r.RemoteAddr
	}
	if network, err := address.Prefix(64); err == nil && address.Is6() {
		return network.String()
	}
	return address.String()
}

// parseAddress reads an address with or without a port.
func parseAddress(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return address.Unmap().WithZone(""), err == nil
}

// Behind serves requests as those of the client whom trusted proxies name in X-Forwarded-For. Each
// proxy appends where a request came from, so it is read from its end, as far as those who wrote it
// are trusted: what stands before, the client may have made up.
func Behind(proxies []netip.Prefix, next http.Handler) http.Handler {
	if len(proxies) == 0 {
		return next
	}
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, known := parseAddress(r.RemoteAddr)
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for i := len(hops) - 1; known && i >= 0 && trusted(from); i-- {
			before, ok := parseAddress(hops[i])
			if !ok {
				break
			}
			from = before
		}
		if known {
			r = r.WithContext(r.Context())
			r.RemoteAddr = net.JoinHostPort(from.String(), "0")
		}
		next.ServeHTTP(w, r)
	})
}

// Package way names the ways to sign in to the web page, and reads the settings of those behind a
// proxy: what the configuration knows of internal/signin, without the page.
package way

import "net/netip"

// The ways, for the configuration and the audit.
const (
	None  = "none"
	Link  = "link"
	Users = "users"
	JWT   = "jwt"
)

// PayloadsReveal lets operators see what one event carries.
const PayloadsReveal = "reveal"

// Settings are those of the page that decide who comes in, and what they may do.
type Settings struct {
	Addr         string
	BasePath     string
	PublicURL    string
	AllowChanges bool
	Payloads     string
	Auth         string
	Users        string
	UsersFile    string
	Operators    string
	// TrustedProxies are those whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	JWT            struct{ Preset, Header, KeysURL, Issuer, Audience, Algs, Claim string }
	TLSCert        string
	TLSKey         string
}

// Reveals reports whether operators may see what one event carries.
func (s Settings) Reveals() bool { return s.Payloads == PayloadsReveal }

// Presets are the proxies that are known by name.
func Presets() []string { return []string{"iap", "cloudflare"} }

// ParseProxies reads addresses and networks of proxies, and returns those that are neither.
func ParseProxies(words []string) (proxies []netip.Prefix, wrong []string) {
	for _, word := range words {
		if network, err := netip.ParsePrefix(word); err == nil {
			proxies = append(proxies, network.Masked())
		} else if address, err := netip.ParseAddr(word); err == nil {
			proxies = append(proxies, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
		} else {
			wrong = append(wrong, word)
		}
	}
	return proxies, wrong
}

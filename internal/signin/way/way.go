// Package way names the ways to sign in to the web page, and reads the settings of those behind a
// proxy: what the configuration knows of internal/signin, without the page.
package way

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
	JWT          struct{ Preset, Header, KeysURL, Issuer, Audience, Algs, Claim string }
	TLSCert      string
	TLSKey       string
}

// Reveals reports whether operators may see what one event carries.
func (s Settings) Reveals() bool { return s.Payloads == PayloadsReveal }

// Presets are the proxies that are known by name.
func Presets() []string { return []string{"iap", "cloudflare"} }

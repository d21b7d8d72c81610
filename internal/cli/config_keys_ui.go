package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/ui"
)

// uiKeys are the settings of the web page.
func uiKeys() []ConfigKey {
	return []ConfigKey{
		{
			Name: "ui.addr", Flag: "addr", groups: []FlagGroup{GroupUI}, Def: defaultUIAddr, Kind: "host:port",
			Help: "address of the web page; port 0 picks one; off this machine it needs --auth users or jwt and --public-url",
			set:  setHostPort(func(c *Config) *string { return &c.UI.Addr }),
		},
		{
			Name: "ui.base_path", Flag: "base-path", groups: []FlagGroup{GroupUI}, Kind: "path",
			Help: "prefix of every address of the page, such as /ops/outbox",
			set:  setBasePath,
		},
		{
			Name: "ui.public_url", Flag: "public-url", groups: []FlagGroup{GroupUI}, Kind: "url",
			Help: "the one address under which people reach the page",
			set:  setString(func(c *Config) *string { return &c.UI.PublicURL }),
		},
		{
			Name: "ui.allow_changes", Flag: "allow-changes", groups: []FlagGroup{GroupUI}, Def: "false", Kind: kindBool,
			Help: "let operators replay, discard, restore and republish on the page",
			set:  setBool(func(c *Config) *bool { return &c.UI.AllowChanges }),
		},
		{
			Name: "ui.payloads", Flag: "payloads", groups: []FlagGroup{GroupUI}, Def: "off", Kind: "off|reveal",
			Help: "reveal lets operators see what one event carries, which is audited",
			set:  setOneOf(func(c *Config) *string { return &c.UI.Payloads }, "off", ui.PayloadsReveal),
		},
		{
			Name: "ui.auth", Flag: "auth", groups: []FlagGroup{GroupUI}, Kind: "way",
			Help: "how people sign in: none, link, users or jwt (default on this machine none, with changes link)",
			set:  setOneOf(func(c *Config) *string { return &c.UI.Auth }, signin.NameNone, signin.NameLink, signin.NameUsers, signin.NameJWT),
		},
		{
			Name: "ui.users", Kind: "lines", Secret: true,
			Help: "with --auth users: name:role:bcrypt-hash or name:role:sha256:hash-of-a-token, one a line; role viewer or operator",
			set:  setString(func(c *Config) *string { return &c.UI.Users }),
		},
		{
			Name: "ui.users_file", Flag: "users-file", groups: []FlagGroup{GroupUI}, Kind: "file",
			Help: "file with the same lines as ui.users",
			set:  setString(func(c *Config) *string { return &c.UI.UsersFile }),
		},
		{
			Name: "ui.trusted_proxies", Flag: "trusted-proxies", groups: []FlagGroup{GroupUI}, Kind: "addresses",
			Help: "addresses or networks of proxies whose X-Forwarded-For names the client, such as 10.0.0.7,10.1.0.0/16 (default none)",
			set:  setProxies,
		},
		{
			Name: "ui.operators", Flag: "operators", groups: []FlagGroup{GroupUI}, Kind: "names",
			Help: "with --auth jwt: who may change things, such as ann@example.com,*@ops.example.com (default none)",
			set:  setString(func(c *Config) *string { return &c.UI.Operators }),
		},
		{
			Name: "ui.jwt.preset", Kind: "name",
			Help: "with --auth jwt: iap or cloudflare fills in header, keys and algorithms",
			set:  setOneOf(func(c *Config) *string { return &c.UI.JWT.Preset }, signin.Presets()...),
		},
		{
			Name: "ui.jwt.header", Kind: "name",
			Help: "header in which the proxy sends its signed token",
			set:  setString(func(c *Config) *string { return &c.UI.JWT.Header }),
		},
		{
			Name: "ui.jwt.jwks_url", Kind: "url",
			Help: "where the proxy publishes its keys",
			set:  setString(func(c *Config) *string { return &c.UI.JWT.KeysURL }),
		},
		{
			Name: "ui.jwt.issuer", Kind: "url",
			Help: "who must have issued the token",
			set:  setString(func(c *Config) *string { return &c.UI.JWT.Issuer }),
		},
		{
			Name: "ui.jwt.audience", Kind: "text",
			Help: "for whom the token must have been issued; required",
			set:  setString(func(c *Config) *string { return &c.UI.JWT.Audience }),
		},
		{
			Name: "ui.jwt.algs", Kind: "names",
			Help: "algorithms that are accepted, such as RS256,ES256",
			set:  setString(func(c *Config) *string { return &c.UI.JWT.Algs }),
		},
		{
			Name: "ui.jwt.claim", Def: "email", Kind: "name",
			Help: "claim of the token that names the person",
			set:  setString(func(c *Config) *string { return &c.UI.JWT.Claim }),
		},
		{
			Name: "ui.tls_cert", Flag: "tls-cert", groups: []FlagGroup{GroupUI}, Kind: "file",
			Help: "certificate with which the page itself serves https",
			set:  setString(func(c *Config) *string { return &c.UI.TLSCert }),
		},
		{
			Name: "ui.tls_key", Flag: "tls-key", groups: []FlagGroup{GroupUI}, Kind: "file",
			Help: "key of --tls-cert",
			set:  setString(func(c *Config) *string { return &c.UI.TLSKey }),
		},
		{
			Name: "ui.max_plan_rows", Flag: "max-plan-rows", groups: []FlagGroup{GroupUI}, Def: strconv.Itoa(ui.DefaultMaxPlanRows), Kind: "int",
			Help: "largest set that one change on the page may have",
			set:  setInt(func(c *Config) *int { return &c.UI.MaxPlanRows }, 1, 100_000_000),
		},
		{
			Name: "ui.label", Flag: "label", groups: []FlagGroup{GroupUI}, Kind: "text",
			Help: "word at the top of the page, such as production (default the database's name)",
			set:  setString(func(c *Config) *string { return &c.UI.Label }),
		},
		{
			Name: "ui.color", Flag: "label-color", groups: []FlagGroup{GroupUI}, Def: "blue", Kind: "color",
			Help: "color of the label: " + strings.Join(ui.Colors(), ", "),
			set:  setOneOf(func(c *Config) *string { return &c.UI.Color }, ui.Colors()...),
		},
		{
			Name: "ui.read_url", Kind: "url", Secret: true,
			Help: "connection string of a replica, or of another login, from which the page reads (default database.url)",
			set:  setReadURL,
		},
		{
			Name: "ui.read_role", Flag: "read-role", groups: []FlagGroup{GroupUI}, Def: ui.DefaultReadRole, Kind: "role",
			Help: "role under which the page reads; - reads with the login's own rights",
			set:  setString(func(c *Config) *string { return &c.UI.ReadRole }),
		},
		{
			Name: "ui.refresh", Flag: "refresh", groups: []FlagGroup{GroupUI}, Def: durationText(ui.DefaultRefresh), Kind: "duration",
			Help: "pace of the page's figures; slower by itself where they cost more",
			set:  setDuration(func(c *Config) *time.Duration { return &c.UI.Refresh }, time.Second, time.Hour),
		},
		{
			Name: "ui.query_timeout", Flag: "query-timeout", groups: []FlagGroup{GroupUI}, Def: durationText(ui.DefaultQueryTimeout), Kind: "duration",
			Help: "longest statement of the page",
			set:  setDuration(func(c *Config) *time.Duration { return &c.UI.QueryTimeout }, 100*time.Millisecond, time.Hour),
		},
	}
}

func setProxies(c *Config, raw string) error {
	var wrong []string
	if c.UI.TrustedProxies, wrong = signin.ParseProxies(strings.FieldsFunc(raw, func(r rune) bool { return r == ',' || r == ' ' })); len(wrong) > 0 {
		return fmt.Errorf("%s is neither an address nor a network such as 10.1.0.0/16", strings.Join(wrong, ", "))
	}
	return nil
}

package signin

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/ui"
)

// Params are the settings of the page, who runs it, and the clock.
type Params struct {
	way.Settings
	Actor string
	Now   func() time.Time
}

// Plan is how the page is served: under which name, and how people sign in.
type Plan struct {
	Public *url.URL
	// Method is nil for a link, which needs the port.
	Method Method
	// Whom describes who comes in, for the line that is printed at the start.
	Whom string

	params Params
}

// Choose refuses settings with which the page would be open to others than those it is meant for,
// all of them at once.
func Choose(s Params) (plan Plan, problems []string) {
	plan.params = s
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	local := isLocal(s.Addr)
	if s.PublicURL != "" {
		var err error
		plan.Public, err = url.Parse(s.PublicURL)
		if err != nil || (plan.Public.Scheme != "http" && plan.Public.Scheme != "https") || plan.Public.Host == "" {
			add("ui.public_url: must be an address such as https://ops.example.com")
			plan.Public = nil
		}
	} else if !local {
		add("ui.public_url: is required, because %s is not an address of this machine alone", s.Addr)
	}
	if (s.TLSCert == "") != (s.TLSKey == "") {
		add("ui.tls_cert, ui.tls_key: one goes with the other")
	} else if s.TLSCert != "" {
		if _, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey); err != nil {
			add("ui.tls_cert: %v", fault.File(s.TLSCert+" or "+s.TLSKey, err))
		}
	}
	chosen := s.Auth
	switch {
	case chosen == "" && local && (s.AllowChanges || s.Reveals()):
		chosen = way.Link
	case chosen == "" && local:
		chosen = way.None
	case chosen == "":
		add("ui.auth: say how people sign in, users or jwt, because %s is not an address of this machine alone", s.Addr)
	case !local && (chosen == way.None || chosen == way.Link):
		add("ui.auth: %s is for this machine alone; with %s use users or jwt", chosen, s.Addr)
	}
	if chosen == way.None && s.Reveals() {
		add("ui.payloads: reveal needs a sign-in: the audit must say who saw what")
	}
	if chosen != way.JWT && s.Operators != "" {
		add("ui.operators: goes with ui.auth jwt; the lines of ui.users have a role each")
	}
	var more []string
	plan.Method, plan.Whom, more = s.method(chosen)
	problems = append(problems, more...)
	https := s.TLSCert != "" || plan.Public != nil && plan.Public.Scheme == "https"
	if chosen == way.Users && !local && !https {
		add("ui.auth: users would send passwords in the clear; set ui.tls_cert and ui.tls_key, or an https ui.public_url")
	}
	return plan, problems
}

func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// method is the way to sign in, and everything that is wrong with it.
func (s Params) method(chosen string) (method Method, whom string, problems []string) {
	switch chosen {
	case way.None:
		return None{Name: s.Actor, Role: s.ownRole()}, "to all users of this machine", nil
	case way.Link:
		return nil, "to anyone who has this link", nil
	case way.Users:
		text := s.Users
		if s.UsersFile != "" {
			content, err := os.ReadFile(s.UsersFile)
			if err != nil {
				return nil, "", []string{fmt.Sprintf("ui.users_file: %v", fault.File(s.UsersFile, err))}
			}
			text += "\n" + string(content)
		}
		users, err := ParseUsers(text)
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				problems = append(problems, "ui.users: "+line)
			}
		}
		return users, "to its users", problems
	case way.JWT:
		c := s.JWT
		params := JWTParams{
			Preset: c.Preset, Header: c.Header, KeysURL: c.KeysURL, Issuer: c.Issuer, Audience: c.Audience, Algs: fields(c.Algs), Claim: c.Claim,
			Operators: fields(s.Operators), Now: s.Now,
		}
		if problems := params.Complete(); len(problems) > 0 {
			return nil, "", problems
		}
		return NewJWT(params), "to those whom its proxy vouches for", nil
	}
	return nil, "", nil
}

// ownRole is what the person who runs the process may do on the page.
func (s Params) ownRole() ui.Role {
	if s.AllowChanges || s.Reveals() {
		return ui.Operator
	}
	return ui.Viewer
}

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// Address is where people find the page.
func (p Plan) Address(at net.Addr) string {
	base := strings.TrimRight(p.params.BasePath, "/") + "/"
	switch {
	case p.Public != nil:
		return strings.TrimRight(p.Public.Scheme+"://"+p.Public.Host, "/") + base
	case p.params.TLSCert != "":
		return "https://" + at.String() + base
	default:
		return "http://" + at.String() + base
	}
}

// Link is the sign-in by a printed link. Its cookie is named with the port: cookies of one host are
// seen by all its servers.
func (p Plan) Link(at net.Addr, token string) *Link {
	_, port, _ := net.SplitHostPort(at.String())
	return &Link{
		Token: token, Name: p.params.Actor, Role: p.params.ownRole(), Port: cmp.Or(port, "page"), Path: strings.TrimRight(p.params.BasePath, "/"), Now: p.params.Now,
	}
}

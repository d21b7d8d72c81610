package cmd

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/ui"
)

// uiPlan is how the page is served: under which name, and how people sign in.
type uiPlan struct {
	public *url.URL
	// method is nil for a link, which needs the port.
	method signin.Method
	// whom describes who comes in, for the line that is printed at the start.
	whom string
}

// checkUI refuses settings with which the page would be open to others than those it is meant for, all of them at once.
func checkUI(app *cli.App, cfg *cli.Config) (plan uiPlan, err error) {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	local := isLocal(cfg.UI.Addr)
	if cfg.UI.PublicURL != "" {
		plan.public, err = url.Parse(cfg.UI.PublicURL)
		if err != nil || (plan.public.Scheme != "http" && plan.public.Scheme != "https") || plan.public.Host == "" {
			add("ui.public_url: must be an address such as https://ops.example.com")
			plan.public = nil
		}
	} else if !local {
		add("ui.public_url: is required, because %s is not an address of this machine alone", cfg.UI.Addr)
	}
	if (cfg.UI.TLSCert == "") != (cfg.UI.TLSKey == "") {
		add("ui.tls_cert, ui.tls_key: one goes with the other")
	} else if cfg.UI.TLSCert != "" {
		if _, err := tls.LoadX509KeyPair(cfg.UI.TLSCert, cfg.UI.TLSKey); err != nil {
			add("ui.tls_cert: %v", fault.File(cfg.UI.TLSCert+" or "+cfg.UI.TLSKey, err))
		}
	}
	chosen := cfg.UI.Auth
	switch {
	case chosen == "" && local && (cfg.UI.AllowChanges || reveals(cfg)):
		chosen = way.Link
	case chosen == "" && local:
		chosen = way.None
	case chosen == "":
		add("ui.auth: say how people sign in, users or jwt, because %s is not an address of this machine alone", cfg.UI.Addr)
	case !local && (chosen == way.None || chosen == way.Link):
		add("ui.auth: %s is for this machine alone; with %s use users or jwt", chosen, cfg.UI.Addr)
	}
	if chosen == way.None && reveals(cfg) {
		add("ui.payloads: reveal needs a sign-in: the audit must say who saw what")
	}
	if chosen != way.JWT && cfg.UI.Operators != "" {
		add("ui.operators: goes with ui.auth jwt; the lines of ui.users have a role each")
	}
	var more []string
	plan.method, plan.whom, more = uiMethod(app, cfg, chosen)
	problems = append(problems, more...)
	https := cfg.UI.TLSCert != "" || plan.public != nil && plan.public.Scheme == "https"
	if chosen == way.Users && !local && !https {
		add("ui.auth: users would send passwords in the clear; set ui.tls_cert and ui.tls_key, or an https ui.public_url")
	}
	if len(problems) > 0 {
		return plan, cli.ConfigProblems(problems...)
	}
	return plan, nil
}

func reveals(cfg *cli.Config) bool { return cfg.UI.Payloads == ui.PayloadsReveal }

func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// uiMethod is the way to sign in, and everything that is wrong with it.
func uiMethod(app *cli.App, cfg *cli.Config, chosen string) (method signin.Method, whom string, problems []string) {
	switch chosen {
	case way.None:
		return signin.None{Name: app.Actor(cli.AuditFlags{}), Role: ownRole(cfg)}, "to all users of this machine", nil
	case way.Link:
		return nil, "to anyone who has this link", nil
	case way.Users:
		text := cfg.UI.Users
		if cfg.UI.UsersFile != "" {
			content, err := os.ReadFile(cfg.UI.UsersFile)
			if err != nil {
				return nil, "", []string{fmt.Sprintf("ui.users_file: %v", fault.File(cfg.UI.UsersFile, err))}
			}
			text += "\n" + string(content)
		}
		users, err := signin.ParseUsers(text, app.Now)
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				problems = append(problems, "ui.users: "+line)
			}
		}
		return users, "to its users", problems
	case way.JWT:
		c := cfg.UI.JWT
		params := signin.JWTParams{
			Preset: c.Preset, Header: c.Header, KeysURL: c.KeysURL, Issuer: c.Issuer, Audience: c.Audience, Algs: fields(c.Algs), Claim: c.Claim,
			Operators: fields(cfg.UI.Operators), Now: app.Now,
		}
		if problems := params.Complete(); len(problems) > 0 {
			return nil, "", problems
		}
		return signin.NewJWT(params), "to those whom its proxy vouches for", nil
	}
	return nil, "", nil
}

// ownRole is what the person who runs the process may do on the page.
func ownRole(cfg *cli.Config) ui.Role {
	if cfg.UI.AllowChanges || reveals(cfg) {
		return ui.Operator
	}
	return ui.Viewer
}

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// address is where people find the page.
func (p uiPlan) address(cfg *cli.Config, at net.Addr) string {
	base := strings.TrimRight(cfg.UI.BasePath, "/") + "/"
	switch {
	case p.public != nil:
		return strings.TrimRight(p.public.Scheme+"://"+p.public.Host, "/") + base
	case cfg.UI.TLSCert != "":
		return "https://" + at.String() + base
	default:
		return "http://" + at.String() + base
	}
}

// link is the sign-in by a printed link. Its cookie is named with the port: cookies of one host are seen by all its servers.
func (p uiPlan) link(app *cli.App, cfg *cli.Config, at net.Addr, token string) *signin.Link {
	_, port, _ := net.SplitHostPort(at.String())
	return &signin.Link{
		Token: token, Name: app.Actor(cli.AuditFlags{}), Role: ownRole(cfg), Port: cmp.Or(port, "page"), Path: strings.TrimRight(cfg.UI.BasePath, "/"), Now: app.Now,
	}
}

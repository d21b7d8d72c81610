package nats

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// The names of the settings.
const (
	setURL          = "nats.url"
	setCreds        = "nats.creds_file"
	setUsername     = "nats.username"
	setPassword     = "nats.password"
	setDedupe       = "nats.dedupe"
	setReplicas     = "nats.replicas"
	setSubscription = "nats.subscription"
)

// Kind is NATS JetStream.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "nats", Title: "NATS", Settings: settings(), Subscription: setSubscription,
		Limits: limits(largestPayload), Retention: Retention, CheckName: CheckName, Open: open,
		Check: func(setting func(string) string) map[string]error {
			problems := broker.CheckTogether("nats", setting)
			if setting(setCreds) != "" && setting(setUsername) != "" {
				problems[setCreds] = fmt.Errorf("give it or %s, not both", setUsername)
			}
			return problems
		},
		Addr: func(setting func(string) string) string {
			first, _, _ := strings.Cut(setting(setURL), ",")
			u, err := url.Parse(strings.TrimSpace(first))
			switch {
			case err != nil || u.Host == "":
				return ""
			case u.Port() == "":
				return u.Host + ":4222"
			}
			return u.Host
		},
		Remedy: "check nats.url and the credentials, and that the server runs with JetStream (nats-server -js)",
		Rights: "check the account's permissions: publish to the subject and $JS.API.>, subscribe to _INBOX.>",
	}
}

func settings() []broker.Setting {
	return slices.Concat([]broker.Setting{
		{
			Name: setURL, Help: "servers of NATS (nats:// or tls://), several with commas between them", Kind: "url", Default: DefaultURL,
			Secret: true, Server: true, Env: []string{"NATS_URL"}, Check: CheckURL,
		},
		{Name: setCreds, Help: "file with the credentials of a NATS account", Kind: "file", Server: true},
	}, broker.AccountSettings("nats"), broker.TLSSettings("nats"), []broker.Setting{
		{Name: setDedupe, Help: "give messages the id by which a stream stores each once", Kind: broker.KindBool, Default: "true"},
		{Name: setReplicas, Help: "replicas of the streams that topic ensure creates", Kind: broker.KindNumber, Default: "1"},
		broker.SubscriptionSetting(setSubscription, "consumer of the domain topic's stream", "pf-domain-events-sub", CheckName),
	})
}

func open(_ context.Context, p broker.Params) (broker.Broker, error) {
	return Connect(Config{
		URL: p.Setting(setURL), CredsFile: p.Setting(setCreds), Username: p.Setting(setUsername),
		Password: func() (string, error) { return p.Secret(setPassword) }, Files: p.FilesOf("nats"),
		NoDedupe: !p.Bool(setDedupe), Replicas: p.Number(setReplicas), PublishTimeout: p.PublishTimeout, Name: p.UserAgent,
	})
}

var _ broker.Broker = (*Client)(nil)

// String implements broker.Broker.
func (c *Client) String() string { return fmt.Sprintf("NATS (%s)", c.servers()) }

// Explain implements broker.Broker.
func (c *Client) Explain(err error) (why, advice string) {
	return explain(err), "outboxctl config view shows where nats.url and the credentials come from"
}

// Findings implements broker.Broker.
func (c *Client) Findings(bool) []broker.Finding {
	if c.cfg.NoDedupe {
		return nil
	}
	return []broker.Finding{{Message: "streams store an event once within their duplicate window"}}
}

// CheckName refuses a subject (broker.KindTopic) or the name of a consumer
// (broker.KindSubscription) that a server would refuse, or that would mean many.
func CheckName(kind, name string) error {
	if kind == broker.KindSubscription {
		if name == "" || len(name) > 255 || strings.ContainsFunc(name, notInConsumer) {
			return fmt.Errorf("NATS consumer %q: want up to 255 letters, digits or -_", name)
		}
		return nil
	}
	for token := range strings.SplitSeq(name, ".") {
		if token == "" || strings.ContainsFunc(token, notInToken) {
			return fmt.Errorf("NATS subject %q: want words with dots between them, without blanks, * and >", name)
		}
	}
	switch {
	case len(name) > 255:
		return fmt.Errorf("NATS subject %q: want up to 255 bytes", name)
	case strings.HasPrefix(name, "$"), strings.HasPrefix(name, "_"):
		return fmt.Errorf("NATS subject %q: names that begin with $ or _ belong to the server", name)
	}
	return nil
}

func notInToken(r rune) bool { return r <= ' ' || r == 0x7f || r == '*' || r == '>' }

func notInConsumer(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// plain is a subject as the name of a stream or a consumer, which have no dots.
func plain(subject string) string {
	return strings.Map(func(r rune) rune {
		if notInConsumer(r) {
			return '-'
		}
		return r
	}, subject)
}

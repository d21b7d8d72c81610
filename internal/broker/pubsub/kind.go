package pubsub

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// Kind is Google Cloud Pub/Sub, or an emulator of it.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "pubsub", Title: "Pub/Sub", Settings: settings(), Needs: []string{setProject},
		Subscription: setSubscription, Limits: wire.PubSubLimits(), Retention: Retention, CheckName: ValidateName, Open: open,
		Check: func(setting func(string) string) map[string]error {
			if project := setting(setProject); project != "" {
				if err := ValidateProject(project, setting(setEmulator) != ""); err != nil {
					return map[string]error{setProject: err}
				}
			}
			return nil
		},
		Addr: func(setting func(string) string) string {
			if setting(setProject) == "" && setting(setEmulator) == "" && setting(setEndpoint) == "" {
				return ""
			}
			return cmp.Or(setting(setEmulator), setting(setEndpoint), serviceAddr)
		},
		Remedy: "check pubsub.project, pubsub.emulator and the credentials (gcloud auth application-default login)", Rights: "check the service account's permissions: roles/pubsub.editor creates topics and subscriptions",
	}
}

// The names of the settings, and where Google answers.
const (
	setProject      = "pubsub.project"
	setEmulator     = "pubsub.emulator"
	setEndpoint     = "pubsub.endpoint"
	setSubscription = "pubsub.subscription"

	serviceAddr = "pubsub.googleapis.com:443"
)

func settings() []broker.Setting {
	hostPort := func(raw string) error {
		if _, port, err := net.SplitHostPort(raw); err != nil || port == "" {
			return fmt.Errorf("%q is not host:port", raw)
		}
		return nil
	}
	return []broker.Setting{
		{
			Name: setProject, Help: "Google Cloud project of the topics", Kind: "id", Server: true,
			Flag: "project", Env: []string{"GOOGLE_CLOUD_PROJECT"},
		},
		{
			Name: setEmulator, Help: "Pub/Sub emulator to use instead of Google Cloud", Kind: "host:port", Server: true,
			Flag: "emulator", Env: []string{emulatorEnv}, Check: hostPort,
		},
		{
			Name: setEndpoint, Kind: "host:port", Server: true, Check: hostPort,
			Help: "endpoint of one region, such as europe-west1-pubsub.googleapis.com:443; events with an ordering key need one",
		},
		{
			Name: setSubscription, Help: "subscription of the domain topic", Kind: "name", Default: "pf-domain-events-sub",
			Flag: "subscription", Commands: []string{"consume", "topic", "dev"}, Env: []string{"PACKFINDERZ_PUBSUB_DOMAIN_SUBSCRIPTION"},
			Check: func(raw string) error { return ValidateName(broker.KindSubscription, raw) },
		},
	}
}

func open(ctx context.Context, p broker.Params) (broker.Broker, error) {
	return Connect(ctx, Config{
		Project: p.Setting(setProject), Emulator: p.Setting(setEmulator),
		Endpoint: p.Setting(setEndpoint), PublishTimeout: p.PublishTimeout, UserAgent: p.UserAgent,
	})
}

// Findings implements broker.Broker.
func (c *Client) Findings(ordered bool) []broker.Finding {
	if !ordered || c.cfg.Endpoint != "" || c.Emulated() {
		return nil
	}
	return []broker.Finding{{
		Warn: true, Remedy: "set pubsub.endpoint to that of one region, such as europe-west1-pubsub.googleapis.com:443",
		Message: "events have an ordering key and publishers use the nearest region: keys keep their order only within one",
	}}
}

var _ broker.Broker = (*Client)(nil)

// String implements broker.Broker.
func (c *Client) String() string {
	if c.Emulated() {
		return fmt.Sprintf("Pub/Sub (project %s on the emulator at %s)", c.cfg.Project, c.cfg.Emulator)
	}
	return fmt.Sprintf("Pub/Sub (project %s)", c.cfg.Project)
}

// Plan implements broker.Broker.
func (c *Client) Plan(topics, subscriptions map[string]string) []broker.PlannedTopic {
	return Plan(topics, subscriptions)
}

// Explain implements broker.Broker.
func (c *Client) Explain(err error) (why, advice string) {
	advice = "outboxctl config view shows where pubsub.project and pubsub.emulator come from"
	if c.Emulated() {
		advice += "; outboxctl dev starts a local stack"
	}
	return explain(err), advice
}

// Advice implements broker.Broker: an emulator has no service account.
func (c *Client) Advice() string {
	if c.Emulated() {
		return ""
	}
	return fmt.Sprintf("dead letters move once Pub/Sub's service account of project %s may publish to the "+
		"dead-letter topics (roles/pubsub.publisher) and acknowledge on the subscriptions (roles/pubsub.subscriber)",
		c.cfg.Project)
}

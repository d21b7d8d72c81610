package http

import (
	"context"
	"strings"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/callback"
)

// The names of the settings.
const (
	setURL      = "http.url"
	setSecret   = "http.secret"
	setTimeout  = "http.timeout"
	setParallel = "http.parallel"
)

// Kind is an HTTP service of one's own, or webhooks.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "http", Title: "HTTP", Limits: limits(), CheckName: callback.CheckName, Open: open,
		Takes: broker.DurationOf(setTimeout),
		Settings: []broker.Setting{
			{
				Name: setURL, Kind: "url", Server: true, Flag: "http", Commands: []string{"publish", "dev"}, Chooses: true, Check: CheckURL,
				Help: "post each event to this URL; {topic}, {event_type} and {namespace} in it stand for the event's",
			},
			{
				Name: setSecret, Kind: "text", Server: true, Secret: true,
				Help: "secrets that sign requests as Standard Webhooks says, apart by blanks, the newest first",
			},
			{Name: setSecret + "_file", Kind: "file", Server: true, Help: "file that holds what http.secret would"},
			{Name: setTimeout, Kind: broker.KindDuration, Default: "10s", Help: "how long a service may take to answer one event"},
			{Name: setParallel, Kind: broker.KindNumber, Default: "8", Help: "requests of one topic under way at once"},
		},
		Addr: func(setting func(string) string) string {
			if setting(setURL) == "" {
				return ""
			}
			addr, _ := (&Client{}).addr(setting(setURL))
			return addr
		},
		Remedy: "check http.url, and that the service runs", Rights: "check http.url or the topic's URL, and that the service runs",
	}
}

func open(_ context.Context, p broker.Params) (broker.Broker, error) {
	secrets, err := p.Secret(setSecret)
	if err != nil {
		return nil, err
	}
	return New(Config{
		URL: p.Setting(setURL), Secrets: strings.Fields(secrets), Timeout: p.Duration(setTimeout),
		Parallel: p.Number(setParallel), UserAgent: p.UserAgent,
	})
}

var _ broker.Broker = (*Client)(nil)

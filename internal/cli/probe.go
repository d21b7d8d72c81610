package cli

import (
	"context"
	"net"

	"github.com/outboxctl/outboxctl/internal/stats"
)

const pubsubHost = "pubsub.googleapis.com:443"

// Probes ask Redis and Pub/Sub whether they answer. Pub/Sub is not asked while no project is configured.
func (a *App) Probes() []stats.Probe {
	var probes []stats.Probe
	if client, err := a.Redis(); err == nil {
		probes = append(probes, stats.Probe{Name: "redis", Run: func(ctx context.Context) error { return client.Ping(ctx).Err() }})
	}
	if addr := a.pubsubAddr(); addr != "" {
		probes = append(probes, stats.Probe{Name: "pubsub", Run: func(ctx context.Context) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			return conn.Close()
		}})
	}
	return probes
}

func (a *App) pubsubAddr() string {
	switch {
	case a.cfg == nil:
		return ""
	case a.cfg.PubSub.Emulator != "":
		return a.cfg.PubSub.Emulator
	case a.cfg.PubSub.Endpoint != "":
		return a.cfg.PubSub.Endpoint
	case a.cfg.PubSub.Project != "":
		return pubsubHost
	default:
		return ""
	}
}

package cli

import (
	"context"
	"net"

	"github.com/outboxctl/outboxctl/internal/stats"
)

// Probes ask Redis and the broker whether they answer. A broker is not asked while none is
// configured.
func (a *App) Probes() []stats.Probe {
	var probes []stats.Probe
	if client, err := a.Redis(); err == nil {
		probes = append(probes, stats.Probe{Name: "redis", Run: func(ctx context.Context) error { return client.Ping(ctx).Err() }})
	}
	if name, addr := a.brokerAddr(); addr != "" {
		probes = append(probes, stats.Probe{Name: name, Run: func(ctx context.Context) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			return conn.Close()
		}})
	}
	return probes
}

// brokerAddr is where the configured broker answers.
func (a *App) brokerAddr() (name, addr string) {
	if a.cfg == nil || a.cfg.BrokerKind().Addr == nil {
		return "", ""
	}
	kind := a.cfg.BrokerKind()
	return kind.Name, kind.Addr(a.cfg.Value)
}

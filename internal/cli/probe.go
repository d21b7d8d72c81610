package cli

import (
	"context"
	"net"
	"slices"

	"github.com/outboxctl/outboxctl/internal/stats"
)

// UsesRedis reports whether a setting says that consumers run here.
func (c *Config) UsesRedis() bool {
	return slices.ContainsFunc([]string{"redis.url", "idempotency.ttl", "consume.http_addr"}, func(key string) bool {
		return c.Origin(key) != OriginDefault && (key != "redis.url" || c.Redis.URL != "")
	})
}

// Probes ask Redis and the broker whether they answer. Neither is asked while it is not configured.
func (a *App) Probes() []stats.Probe {
	var probes []stats.Probe
	if client, err := a.Redis(); err == nil && a.cfg.UsesRedis() {
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

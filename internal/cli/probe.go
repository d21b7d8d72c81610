package cli

import (
	"context"
	"net"
	"time"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

const (
	DependencyOK = "ok"
	probeTimeout = 300 * time.Millisecond
	pubsubHost   = "pubsub.googleapis.com:443"
)

// ProbeDependencies asks Redis and Pub/Sub, side by side, whether they are there. Reports need neither; they only say
// when one is away. Pub/Sub is not asked while no project is configured.
func (a *App) ProbeDependencies(ctx context.Context) <-chan map[string]string {
	done := make(chan map[string]string, 1)
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	client, redisErr := a.Redis()
	addr := a.pubsubAddr()
	go func() {
		defer cancel()
		state := map[string]string{}
		if redisErr == nil {
			state["redis"] = answered(client.Ping(ctx).Err())
		}
		if addr != "" {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err == nil {
				err = conn.Close()
			}
			state["pubsub"] = answered(err)
		}
		done <- state
	}()
	return done
}

func (a *App) pubsubAddr() string {
	switch {
	case a.cfg == nil:
		return ""
	case a.cfg.PubSub.Emulator != "":
		return a.cfg.PubSub.Emulator
	case a.cfg.PubSub.Project != "":
		return pubsubHost
	default:
		return ""
	}
}

func answered(err error) string {
	if err == nil {
		return DependencyOK
	}
	return "unreachable: " + safetext.Stored(err.Error())
}

package cmd

import (
	"context"
	"net"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// runDevPublisher is the publisher of the embedded stack. It takes the usual HTTP address where that is free: a laptop
// may well run a second stack, or something else, on it.
func runDevPublisher(ctx context.Context, app *App) error {
	cfg, err := app.Config("database.url", "pubsub.project")
	if err != nil {
		return err
	}
	if cfg.Publish.HTTPAddr != "" && cfg.origin("publish.http_addr") == originDefault {
		var lc net.ListenConfig
		if l, err := lc.Listen(ctx, "tcp", cfg.Publish.HTTPAddr); err != nil {
			cfg.Publish.HTTPAddr = "127.0.0.1:0"
		} else if err := l.Close(); err != nil {
			return err
		}
	}
	service, err := newPublishService(ctx, app, cfg, outbox.Scope{}, false)
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

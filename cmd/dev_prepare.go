package cmd

import (
	"context"
	"errors"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/pubsub"
)

const (
	devDatabase = "outbox"
	// The usual ports plus ten thousand: what listens on the usual ones may be a real server.
	devPostgresPort = 15432
	devRedisPort    = 16379
	devPubSubPort   = 18085

	devPublisherAddr = "127.0.0.1:19464"
	devUIAddr        = "127.0.0.1:19466"
)

// prepareDev makes the servers usable: a migrated database, topics and subscriptions.
func prepareDev(ctx context.Context, parent *cli.App, servers *devstack.Stack, info devstate.Info) (err error) {
	if err := servers.Postgres.CreateDatabase(ctx, devDatabase); err != nil {
		return err
	}
	app := onStack(parent, info)
	defer func() { err = errors.Join(err, app.Close()) }()
	pool, err := app.Pool(ctx)
	if err != nil {
		return err
	}
	if _, err := migrate.Up(ctx, pool, migrate.Options{}); err != nil {
		return migrateError(err)
	}
	cfg, err := app.Config()
	if err != nil {
		return err
	}
	client, err := app.Broker(ctx)
	if err != nil {
		return err
	}
	plan, err := app.BrokerPlan(ctx)
	if err != nil {
		return err
	}
	if _, err := client.Ensure(ctx, pubsub.EnsureParams{Plan: plan}); err != nil {
		return cli.BrokerError(cfg, err)
	}
	return nil
}

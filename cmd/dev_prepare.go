package cmd

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
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
func prepareDev(ctx context.Context, opts *devOptions, servers *devstack.Stack,
	info devstate.Info) (err error) {
	if err := servers.Postgres.CreateDatabase(ctx, devDatabase); err != nil {
		return err
	}
	app := onStack(opts.app, info)
	defer func() { err = errors.Join(err, app.Close()) }()
	pool, err := app.Pool(ctx)
	if err != nil {
		return err
	}
	var options migrate.Options
	if opts.ownCatalogue {
		options.Types = migrate.TypesText
	}
	_, err = migrate.Up(ctx, pool, options)
	if err = migrateError(err); err == nil && opts.ownCatalogue {
		err = recordDev(ctx, app)
	}
	if err != nil {
		return fault.Hint(fault.Database(err), "%s", beginAnew)
	}
	types, err := app.Registry(ctx)
	if err != nil {
		return err
	}
	_, opts.consumer = types.Find("", notifications.EventType)
	opts.consumer = opts.consumer && app.BrokerKind().Subscription != ""
	client, err := app.Broker(ctx)
	if err != nil {
		return err
	}
	plan, err := app.BrokerPlan(ctx, client)
	if err != nil {
		return err
	}
	if _, err := client.Ensure(ctx, broker.EnsureParams{Plan: plan}); err != nil {
		return cli.BrokerError(client, err)
	}
	return nil
}

const beginAnew = "is the database that of an earlier run? dev --reset begins with an empty one, dev --state-dir with another"

// oldState advises what helps where the state folder has a schema that this binary cannot use: it
// has been migrated already.
func oldState(err error) error {
	err = fault.Database(err)
	if kind, _ := fault.KindOf(err); kind == fault.Precondition && errors.As(err, new(*pgconn.PgError)) {
		return fault.Hint(err, "%s", beginAnew)
	}
	return err
}

// recordDev records the catalogue of the stack, so that every other command on this machine goes by
// it.
func recordDev(ctx context.Context, app *cli.App) error {
	types, err := app.Registry(ctx)
	if err != nil {
		return err
	}
	db, err := app.Reads(ctx)
	if err != nil {
		return err
	}
	_, err = registry.Apply(ctx, db, registry.ApplyParams{Catalogue: types, Actor: "outboxctl dev"})
	return err
}

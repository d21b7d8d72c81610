package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/demo"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stack"
)

const (
	devDatabase = "outbox"
	// The usual ports plus ten thousand: what listens on the usual ones is somebody's real server.
	devPostgresPort = 15432
	devRedisPort    = 16379
	devPubSubPort   = 18085

	devStopTimeout = 20 * time.Second
	demoReport     = 5 * time.Second
)

// A devComponent runs beside the servers until its context ends. It has an App of its own, whose configuration points at the
// stack.
type devComponent struct {
	name string
	run  func(ctx context.Context, app *App) error
}

// devComponents is what dev runs besides the servers.
func devComponents(opts *devOptions) []devComponent {
	components := []devComponent{{"publisher", runDevPublisher}}
	if opts.demo {
		components = append(components, devComponent{"demo", opts.runDemo})
	}
	return components
}

// runComponents runs until the context ends, the time given with --for is over, or something fails.
func runComponents(ctx context.Context, opts *devOptions, info stack.Info, servers *stack.Stack) error {
	if limit := opts.duration.value; limit != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *limit)
		defer cancel()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return servers.Watch(ctx) })
	for _, component := range devComponents(opts) {
		app := opts.app.onStack(info)
		group.Go(func() error {
			err := errors.Join(component.run(ctx, app), app.Close())
			// What breaks because everything is being stopped is not worth a word.
			if err == nil || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("run the %s: %w", component.name, err)
		})
	}
	return group.Wait()
}

// onStack is the App that the same command line would have if the environment named the stack's servers.
func (a *App) onStack(info stack.Info) *App {
	env := maps.Clone(a.env)
	for _, name := range serverVariables() {
		delete(env, name)
	}
	env["OUTBOXCTL_DATABASE_URL"] = info.DatabaseURL
	env["OUTBOXCTL_REDIS_URL"] = info.RedisURL
	env["OUTBOXCTL_PUBSUB_EMULATOR"] = info.PubSubEmulator
	env["OUTBOXCTL_PUBSUB_PROJECT"] = info.PubSubProject
	return &App{Streams: a.Streams, Registry: a.Registry, Now: a.Now, env: env, flag: a.flag}
}

// serverVariables are the environment variables that name a server.
func serverVariables() []string {
	var names []string
	for _, key := range configKeys() {
		switch key.name {
		case "database.url", "redis.url", "pubsub.project", "pubsub.emulator":
			names = append(names, key.envNames()...)
		}
	}
	return names
}

// warnShadowed says when other commands will not use the stack: it stands behind everything that is configured.
func warnShadowed(app *App) {
	for _, name := range serverVariables() {
		if app.env[name] != "" {
			fmt.Fprintf(app.Err, "note: %s is set, so other commands in this environment use it and not this stack\n", name)
		}
	}
}

// prepareDev makes the servers usable: a migrated database, topics and subscriptions.
func prepareDev(ctx context.Context, parent *App, servers *stack.Stack, info stack.Info) (err error) {
	if err := createDatabase(ctx, servers.Postgres.URL("postgres")); err != nil {
		return err
	}
	app := parent.onStack(info)
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
	if _, err := client.Ensure(ctx, broker.EnsureParams{Plan: brokerPlan(cfg)}); err != nil {
		return brokerError(cfg, err)
	}
	return nil
}

func createDatabase(ctx context.Context, url string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("create the dev database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", devDatabase).Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+devDatabase)
	}
	if err != nil {
		return fmt.Errorf("create the dev database: %w", err)
	}
	return nil
}

func (o *devOptions) runDemo(ctx context.Context, app *App) error {
	pool, err := app.Pool(ctx)
	if err != nil {
		return err
	}
	catalogue := registry.New()
	traffic := demo.New(demo.Params{Seed: o.demoSeed, Rate: o.demoRate, Report: demoReport, Now: app.Now},
		pool, outbox.NewEmitter(catalogue, app.Now), func(r demo.Report) { fmt.Fprintln(app.Err, describeDemo(r)) })
	return traffic.Run(ctx)
}

func describeDemo(r demo.Report) string {
	line := fmt.Sprintf("demo: %d events emitted, %d of them meant to fail", r.Total, r.Faulty)
	types := slices.Sorted(maps.Keys(r.ByType))
	slices.SortStableFunc(types, func(a, b string) int { return r.ByType[b] - r.ByType[a] })
	for i, name := range types {
		if i == 3 {
			line += fmt.Sprintf(", %d more types", len(types)-i)
			break
		}
		separator := ", "
		if i == 0 {
			separator = "; mostly "
		}
		line += fmt.Sprintf("%s%s %d", separator, name, r.ByType[name])
	}
	return line
}

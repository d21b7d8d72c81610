package cmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/demo"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/wait"
	"github.com/outboxctl/outboxctl/ui"
)

// devServerGrace is how long a dying server's process may outlive its connections.
const devServerGrace = time.Second

// A devComponent runs beside the servers until its context ends. Its App points at the stack.
type devComponent struct {
	name string
	run  func(ctx context.Context, app *cli.App) error
}

func devComponents(opts *devOptions) []devComponent {
	components := []devComponent{{"publisher", func(ctx context.Context, app *cli.App) error {
		return runPublish(ctx, &publishOptions{app: app})
	}}}
	if opts.consumer {
		components = append(components, devComponent{"consumer", consumeExample})
	}
	if !opts.noUI {
		components = append(components, devComponent{"page", func(ctx context.Context, app *cli.App) error {
			return runUI(ctx, &uiOptions{app: app, token: opts.uiToken})
		}})
	}
	if opts.demo {
		components = append(components, devComponent{"demo", opts.runDemo})
	}
	return components
}

// runComponents runs until the context ends, the time given with --for is over, or something fails.
func runComponents(ctx context.Context, opts *devOptions, info devstate.Info, servers *devstack.Stack) error {
	if limit := opts.duration.Value; limit != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *limit)
		defer cancel()
	}
	err := runBesideServers(ctx, opts, info, servers)
	if err != nil {
		// A component that loses its server fails before the server's process has ended.
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), devServerGrace)
		defer cancel()
		if ended := servers.Watch(settling); ended != nil {
			return ended
		}
	}
	sayOutbox(context.WithoutCancel(ctx), opts.app, info)
	return err
}

// runBesideServers runs the components, and the view of them, until one fails or the context ends.
func runBesideServers(ctx context.Context, opts *devOptions, info devstate.Info, servers *devstack.Stack) error {
	components := devComponents(opts)
	if opts.live() {
		view, leave, err := enterDevView(opts, components)
		if err != nil {
			return err
		}
		defer leave()
		components = append(components, devComponent{"view", view.run})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return servers.Watch(ctx) })
	for _, component := range components {
		app := onStack(opts.app, info)
		group.Go(func() error {
			err := errors.Join(component.run(ctx, app), app.Close())
			// What breaks because everything is being stopped is not reported.
			if err == nil || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("run the %s: %w", component.name, err)
		})
	}
	return group.Wait()
}

// onStack is the App that the same command line would have beside the stack's servers.
func onStack(a *cli.App, info devstate.Info) *cli.App {
	env := map[string]string{}
	for _, name := range serverVariables() {
		env[name] = ""
	}
	// Its own server does answer, however late on a busy machine. Not every driver knows this parameter.
	env["OUTBOXCTL_DATABASE_URL"] = info.DatabaseURL + "&connect_timeout=60"
	env["OUTBOXCTL_REDIS_URL"] = info.RedisURL
	for _, key := range cli.Settings() {
		if value := info.Destination()[key.Name]; value != "" {
			env[key.EnvNames()[0]] = value
		}
	}
	// A line for every event would hide everything else; who wants them asks with --log-level info.
	if a.Origin("log.level") == cli.OriginDefault {
		env["OUTBOXCTL_LOG_LEVEL"] = "warn"
	}
	// The usual port stays free for a publisher that is started beside the stack.
	if a.Origin("publish.http_addr") == cli.OriginDefault {
		env["OUTBOXCTL_PUBLISH_HTTP_ADDR"] = freeAddr(a, devPublisherAddr)
	}
	if page, err := url.Parse(info.UIURL); err == nil && page.Host != "" {
		env["OUTBOXCTL_UI_ADDR"], env["OUTBOXCTL_UI_LABEL"], env["OUTBOXCTL_UI_ALLOW_CHANGES"] = page.Host, "dev", "true"
		env["OUTBOXCTL_UI_PAYLOADS"] = ui.PayloadsReveal
	}
	return a.Under(env)
}

// serverVariables are the environment variables that name a server.
func serverVariables() []string {
	var names []string
	for _, key := range cli.Settings() {
		if slices.Contains(cli.ServerKeys(), key.Name) {
			names = append(names, key.EnvNames()...)
		}
	}
	return names
}

// warnShadowed warns of what stands before the stack for other commands.
func warnShadowed(app *cli.App) {
	for _, name := range serverVariables() {
		if app.Env(name) != "" {
			fmt.Fprintf(app.Err, "note: %s is set, so other commands in this environment use it and not this stack\n", name)
		}
	}
}

// freeAddr is where something of the stack answers: always the same place unless that is taken. Of
// stacks with folders of their own several may start at the same time, and see the same place free.
func freeAddr(a *cli.App, usual string) string {
	if a.Origin("dev.state_dir") != cli.OriginDefault {
		usual = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", usual)
	if err != nil {
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return usual // who listens there reports it
		}
	}
	_ = listener.Close()
	return listener.Addr().String()
}

func (o *devOptions) runDemo(ctx context.Context, app *cli.App) error {
	pool, err := app.Pool(ctx)
	if err != nil {
		return err
	}
	types, err := app.Registry(ctx)
	if err != nil {
		return err
	}
	emitter := emit.New(types)
	emitter.Now = app.Now
	params := demo.Params{Seed: o.demoSeed, Rate: o.demoRate, Report: 5 * time.Second, Now: app.Now}
	report := func(r demo.Report) {
		fmt.Fprintln(app.Err, r)
		if ctx.Err() == nil { // the last word comes when the publisher has finished, too
			sayOutbox(ctx, app, o.info)
		}
	}
	return demo.New(params, pool, emitter, report).Run(ctx)
}

// sayOutbox prints how the events are doing, or nothing when the database does not answer.
func sayOutbox(ctx context.Context, app *cli.App, info devstate.Info) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if o, err := demo.ReadOutbox(ctx, info.DatabaseURL, info.StartedAt); err == nil {
		fmt.Fprintf(app.Err, "outbox: %d published since the start, %d waiting, %d dead letters open\n",
			o.Published, o.Waiting, o.Dead)
	}
}

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
	client, plan, err := planned(ctx, app)
	if err != nil {
		return err
	}
	if _, err := wait.Patiently(ctx, func(ctx context.Context) ([]broker.Action, error) {
		return client.Ensure(ctx, broker.EnsureParams{Plan: plan})
	}); err != nil {
		return cli.BrokerError(client, err)
	}
	return nil
}

const beginAnew = "is the database that of an earlier run? dev --reset begins with an empty one, dev --state-dir with another"

// oldState advises what helps where the state folder has a schema that this binary cannot use.
func oldState(err error) error {
	err = fault.Database(err)
	if kind, _ := fault.KindOf(err); kind == fault.Precondition && errors.As(err, new(*pgconn.PgError)) {
		return fault.Hint(err, "%s", beginAnew)
	}
	return err
}

// recordDev records the catalogue of the stack, for every other command on this machine.
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

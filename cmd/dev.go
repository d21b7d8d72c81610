package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/signin"
)

type devOptions struct {
	app *cli.App

	demo, noUI, logs, reset, yes bool

	duration cli.DurationFlag
	demoRate float64
	demoSeed uint64
	output   cli.Output

	talk *lockedWriter // what everything says, as whole lines
	dir  string        // the state folder
	// ownCatalogue: --catalogue names a file, which the stack records.
	ownCatalogue bool
	// broker is the settings of what events go to, where it is not the Pub/Sub fake.
	broker map[string]string
	// consumer: the catalogue has the type that the example consumer is for.
	consumer bool
	info     devstate.Info // known once the servers run
	uiToken  string        // of the link that signs in to the page
}

func newDevCmd(app *cli.App) *cobra.Command {
	opts := &devOptions{app: app}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run PostgreSQL, Redis and a Pub/Sub fake on this machine, ready to use",
		Long: `Start a private PostgreSQL (from the installed programs, or downloaded where there
are none), Redis (redis-server, or one inside this process) and a Pub/Sub fake, migrate the
database, create topics and subscriptions, and run the publisher, the example consumer and the web
page (outboxctl ui) against them. Every other outboxctl command on this machine finds the stack by
itself while it runs; with --state-dir only those do for which OUTBOXCTL_STATE_DIR names the same
folder.

With --catalogue FILE the database records that catalogue, for events of your own. The traffic of
--demo is that of a market place, whose types are the built-in ones.

With --broker NAME events go to the server of that kind that is configured (nats.url and so on; the
environment and the file are read for it), with --http and --exec to a service or a command of
yours. The rest is the same.

The connection settings, with the servers' random passwords, go to standard output as lines for a
shell, or as JSON with -o json. A terminal then shows how the events are doing, and the logs go
to dev.log in the state folder; --logs shows them instead. Ctrl-C stops everything; the database
keeps its rows for the next start, unless that one says --reset.`,
		Example: "  outboxctl dev\n  outboxctl dev --demo --demo-rate 100\n  outboxctl dev --catalogue doorito.yaml --http 'http://127.0.0.1:8000/outbox/{event_type}'\n  outboxctl dev --demo --for 30s --state-dir /tmp/try --reset --yes",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDev(cmd.Context(), opts) },
	}
	cmd.Flags().Var(&opts.duration, "for", "stop after this time")
	cmd.Flags().BoolVar(&opts.demo, "demo", false, "produce traffic: events of every built-in type, some of which fail")
	cmd.Flags().Float64Var(&opts.demoRate, "demo-rate", 20, "events per second of --demo")
	cmd.Flags().Uint64Var(&opts.demoSeed, "seed", 1, "same seed, same demo traffic")
	cmd.Flags().BoolVar(&opts.noUI, "no-ui", false, "run without the web page")
	cmd.Flags().BoolVar(&opts.logs, "logs", false, "show the logs on a terminal, not the live view")
	cmd.Flags().BoolVar(&opts.reset, "reset", false, "delete what earlier runs left in the state folder first")
	cli.AddYesFlag(cmd, &opts.yes)
	app.AddConfigFlags(cmd, cli.GroupDev)
	cli.AddOutputFlags(cmd, &opts.output, formatEnv, cli.FormatJSON)
	return cmd
}

// formatEnv prints settings as lines that a shell takes.
const formatEnv = "env"

func (o *devOptions) validate() error {
	if o.demoRate <= 0 || o.demoRate > 100_000 {
		return fault.Usagef("--demo-rate %g: must be above 0 and at most 100000", o.demoRate)
	}
	for _, name := range []string{"database-url", "redis-url", "project", "emulator", cli.FlagContext} {
		if _, given := o.app.Flag(name); given {
			return fault.Usagef("--%s: dev starts servers of its own", name)
		}
	}
	return nil
}

func runDev(ctx context.Context, opts *devOptions) (err error) {
	app := opts.app
	if err := opts.validate(); err != nil {
		return err
	}
	app.Quiet() // a stack that runs already is not what dev uses
	app.LeaveContext()
	opts.talk = &lockedWriter{w: app.Err}
	app.Err = opts.talk
	cfg, err := app.Config()
	if err != nil {
		return err
	}
	if kind, origin := app.BrokerKind(), app.Origin("broker"); strings.HasPrefix(origin, "flag ") && kind.Name != cli.BrokerNames()[0] {
		opts.broker = map[string]string{"broker": kind.Name}
		for _, s := range kind.Settings {
			if value := cfg.Value(s.Name); s.Server && value != "" {
				opts.broker[s.Name] = value
			}
		}
	} else if kind.Name != cli.BrokerNames()[0] {
		return fault.Usagef("the broker is %s (%s): dev publishes there with --broker %s alone, otherwise to a Pub/Sub fake of its own", kind.Name, origin, kind.Name)
	}
	if opts.ownCatalogue = cli.IsCatalogueFile(cfg.Catalogue); opts.ownCatalogue {
		if _, err := openAndWarn(app, cfg.Catalogue); err != nil {
			return err
		}
		if opts.demo {
			return fault.Usagef("--demo produces events of the built-in types, which the catalogue %s does not have", cfg.Catalogue)
		}
	}
	dir := cfg.Dev.StateDir
	if dir == "" {
		dir = devstate.DefaultDir(app.Env)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("resolve the state folder: %w", err)
	}
	lock, err := devstate.AcquireLock(dir)
	if err != nil {
		return devStartError(err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if opts.reset {
		if err := resetState(ctx, opts, dir); err != nil {
			return err
		}
	}
	opts.dir = dir
	return serveDev(ctx, opts)
}

// serveDev runs with the state folder locked.
func serveDev(ctx context.Context, opts *devOptions) (err error) {
	app, dir, started := opts.app, opts.dir, opts.app.Now()
	servers, err := devstack.Start(ctx, devstack.Params{
		Dir: dir, PostgresPort: devPostgresPort, RedisPort: devRedisPort, PubSubPort: devPubSubPort,
		Durable: true, Download: true, Log: app.Err,
	})
	if err != nil {
		return devStartError(err)
	}
	// The servers end after everything that uses them, and also when the context is over.
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err = errors.Join(err, servers.Stop(stopCtx)); err == nil {
			fmt.Fprintln(app.Err, "stopped")
		}
	}()
	opts.info = devstate.Info{
		PID:            os.Getpid(),
		StartedAt:      started.UTC().Truncate(time.Second),
		DatabaseURL:    servers.Postgres.URL(devDatabase),
		RedisURL:       servers.Redis.URL(),
		PubSubEmulator: servers.PubSub.Addr(),
		PubSubProject:  servers.PubSub.Project,
		Broker:         opts.broker,
	}
	if !opts.noUI {
		opts.uiToken = signin.NewToken()
		opts.info.UIURL = (&signin.Link{Token: opts.uiToken}).URL("http://" + freeAddr(app, devUIAddr) + "/")
	}
	info := opts.info
	if err := prepareDev(ctx, opts, servers, info); err != nil {
		return oldState(err)
	}
	if err := devstate.WriteInfo(dir, info); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, devstate.RemoveInfo(dir)) }()

	fmt.Fprintf(app.Err, "PostgreSQL %s, Redis (%s) and the Pub/Sub fake are ready after %s; state in %s\n",
		servers.Postgres.Version(), servers.Redis.Kind, app.Now().Sub(started).Round(100*time.Millisecond), dir)
	if opts.broker != nil {
		fmt.Fprintf(app.Err, "events go to %s, not to the fake\n", app.BrokerKind().Title)
	}
	warnShadowed(app)
	if err := cli.WriteObject(app, opts.output, info, func(p *cli.Page) {
		fmt.Fprintf(p, "export DATABASE_URL='%s'\nexport REDIS_URL='%s'\n"+
			"export PUBSUB_EMULATOR_HOST='%s'\nexport GOOGLE_CLOUD_PROJECT='%s'\n",
			info.DatabaseURL, info.RedisURL, info.PubSubEmulator, info.PubSubProject)
	}); err != nil {
		return err
	}
	if _, given := app.Flag("state-dir"); given {
		fmt.Fprintf(app.Err, "other commands find this stack with: export OUTBOXCTL_STATE_DIR=%s\n", safetext.QuoteWord(dir))
	}
	fmt.Fprintln(app.Err, devFarewell(opts))
	return oldState(runComponents(ctx, opts, info, servers))
}

func devFarewell(opts *devOptions) string {
	if opts.duration.Value != nil {
		return fmt.Sprintf("running for %s; Ctrl-C stops everything before", *opts.duration.Value)
	}
	return "running; Ctrl-C stops everything"
}

// resetState deletes the servers' folders. The caller holds the lock: no other process uses them.
func resetState(ctx context.Context, opts *devOptions, dir string) error {
	kept := devstack.StateOf(dir)
	if len(kept) == 0 {
		return nil
	}
	fmt.Fprintf(opts.app.Err, "this deletes the dev database and everything else in %s\n", dir)
	if err := opts.app.Confirm(ctx, opts.yes, 0, "reset the state folder"); err != nil {
		return err
	}
	return devstack.RemoveState(ctx, dir, opts.app.Err)
}

// devStartError gives the errors of the stack their exit code and advice.
func devStartError(err error) error {
	coded := fault.As(fault.Precondition, err)
	switch {
	case errors.Is(err, devstack.ErrNoPostgres):
		return fault.Hint(coded, "%s", devstack.InstallHint())
	case errors.Is(err, devstack.ErrNoPassword):
		return fault.Hint(coded, "outboxctl dev --reset deletes it and makes a new one")
	}
	return coded
}

// lockedWriter keeps the lines of components that talk at the same time apart.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// divert sends what is written from now on elsewhere, and returns where it went.
func (l *lockedWriter) divert(to io.Writer) io.Writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.w
	l.w = to
	return from
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/internal/telemetry"
	"github.com/outboxctl/outboxctl/ui"
)

// What a request to the page may take.
const (
	uiMaxBody      = 2 << 20
	uiMaxHeader    = 64 << 10
	uiReadTimeout  = 5 * time.Second
	uiWriteTimeout = 30 * time.Second
	uiIdleTimeout  = 2 * time.Minute
	uiStopTimeout  = 5 * time.Second
	uiConnections  = 4
)

func newUICmd(app *cli.App) *cobra.Command {
	opts := &uiOptions{app: app, token: signin.NewToken()}
	var serveProblems bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a web page that shows what waits, what is dead and why",
		Long: `Serve the web page until a signal comes. It has the words and the
filters of the command line: if you know dlq list --type x --since 2h, you know
/dead-letters?type=x&since=2h. Every page shows the command that does the same.

Pages are read in read-only transactions under the role of a viewer (--read-role), which cannot see
payloads. With --allow-changes operators also replay, discard, restore and republish: a set is
chosen, kept as a plan in the database, confirmed by its count and its database, and run in this
process. Without it, and in a read-only context, the addresses for that do not exist. With
--payloads reveal an operator may see what one event carries, and the audit says who did and why.

On this machine any process that reaches the port may look, and with --allow-changes anyone who has
the link that is printed at the start may change (--auth link). On another address people sign in:
--auth users takes names, roles and hashes from ui.users or --users-file, --auth jwt believes the
signed token of a proxy such as IAP or Cloudflare Access. Such an address needs --public-url, and
users need https. It starts also while the database is away, and says so. /healthz and /readyz answer
supervisors, /metrics Prometheus. A program reads the same by -o json.

It refuses to start with settings that would open it to others. On a platform that restarts whatever
exits, --serve-problems answers 503 instead until it is stopped, and the log says what is missing.`,
		Example: "  outboxctl ui --open\n  outboxctl ui --addr 127.0.0.1:0 --label production --label-color red\n  outboxctl ui --allow-changes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := runUI(cmd.Context(), opts)
			if serveProblems && isUIProblem(err) {
				return serveUIProblem(cmd.Context(), app, err)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&opts.open, "open", false, "open the page in a browser ($BROWSER chooses another)")
	cmd.Flags().BoolVar(&serveProblems, "serve-problems", false, "answer 503 instead of exiting while settings are missing, for platforms that restart what exits")
	app.AddConfigFlags(cmd, cli.GroupUI)
	return cmd
}

// uiOptions is one page.
type uiOptions struct {
	app *cli.App
	// token is the one of the link, where that is the way to sign in.
	token string
	open  bool
}

func runUI(ctx context.Context, opts *uiOptions) error {
	app := opts.app
	cfg, err := app.Config("database.url")
	if err != nil {
		return err
	}
	if cfg.ReadOnly() {
		cfg = lookingOnly(app, cfg)
	}
	plan, problems := signin.Choose(signin.Params{Settings: cfg.UI.Settings, Actor: app.Actor(cli.AuditFlags{}), Now: app.Now})
	if len(problems) > 0 {
		return cli.ConfigProblems(problems...)
	}
	page, err := openPage(ctx, app, cfg)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.UI.Addr)
	if err != nil {
		return fault.Hint(fault.Preconditionf("listen for http: %w", fault.Address(cfg.UI.Addr, err)), "--addr 127.0.0.1:0 picks a free port")
	}
	address := plan.Address(listener.Addr())
	opened := address
	if plan.Method == nil {
		link := plan.Link(listener.Addr(), opts.token)
		page.Enter, page.Leave, plan.Method, address, opened = link.Enter, link.Leave, link, link.URL(address), link.OnceURL(address)
	} else if cfg.UI.Auth == way.Users {
		page.Leave = func(http.ResponseWriter, *http.Request) {} // the answer makes the browser forget
	}
	page.PublicURL, page.Identify, page.Challenge = plan.Public, plan.Method.Identify, plan.Method.Challenge()
	handler, err := ui.New(page)
	if err != nil {
		return fault.As(fault.Usage, errors.Join(err, listener.Close()))
	}
	if opts.open {
		opts.app.OpenBrowser(ctx, opened)
	}
	fmt.Fprintf(app.Err, "serving %s %s on %s; Ctrl-C stops it\n", address, plan.Whom, listener.Addr())
	err = serveUI(ctx, cfg, listener, handler)
	return errors.Join(err, shutDown(ctx, handler.Shutdown))
}

// openPage is the page without its sign-in. Its pools are closed with the app.
func openPage(ctx context.Context, app *cli.App, cfg *cli.Config) (settings ui.Config, err error) {
	pool, err := uiPool(ctx, app, cfg, cmp.Or(cfg.UI.ReadURL, cfg.Database.URL), "outboxctl ui")
	if err != nil {
		return settings, err
	}
	if err := checkReadRole(ctx, pool, cfg.UI.ReadRole); err != nil {
		return settings, err
	}
	if settings, err = uiSettings(app, cfg); err != nil {
		return settings, err
	}
	settings.ReadPool = pool
	if cfg.UI.Payloads == ui.PayloadsReveal {
		settings.Payloads = ui.PayloadsReveal
	}
	if cfg.UI.AllowChanges || settings.Payloads != "" {
		settings.Pool, err = uiPool(ctx, app, cfg, cfg.Database.URL, "outboxctl ui changes")
	}
	return settings, err
}

// lookingOnly is the configuration of a page in a read-only context: it has none of the addresses
// that change something, and none that reveal, which the audit would record.
func lookingOnly(app *cli.App, cfg *cli.Config) *cli.Config {
	only := *cfg
	if only.UI.AllowChanges || cfg.UI.Reveals() {
		fmt.Fprintf(app.Err, "context %s is read-only: the page offers no changes and reveals no payloads\n", cfg.Context.Name)
	}
	only.UI.AllowChanges, only.UI.Payloads = false, ""
	return &only
}

// uiPool opens a pool of few connections to a server that need not answer yet.
func uiPool(ctx context.Context, app *cli.App, cfg *cli.Config, url, name string) (*pgxpool.Pool, error) {
	there := *cfg
	there.Database.URL = url
	return app.LazyPool(ctx, &there, cli.PoolParams{Name: name, MaxConns: uiConnections})
}

// uiSettings is the page as the configuration has it, without its database.
func uiSettings(app *cli.App, cfg *cli.Config) (ui.Config, error) {
	log, metrics := app.Log(), prometheus.NewRegistry()
	telemetry.RegisterProcess(metrics, app.Build.Version, app.Build.Commit, app.Build.Go)
	settings := ui.Config{
		Metrics:  metrics,
		ReadRole: cfg.UI.ReadRole, BasePath: cfg.UI.BasePath, TraceURL: cfg.UI.TraceURL, Label: cfg.UI.Label, Color: cfg.UI.Color,
		MaxAttempts: cfg.Publish.MaxAttempts, Refresh: cfg.UI.Refresh, QueryTimeout: cfg.UI.QueryTimeout, Version: app.Build.Version,
		Log: func(path string, err error) {
			log.Warn().Str("path", path).Str("error", safetext.Redact(err.Error())).Msg("request failed")
		},
		AllowChanges: cfg.UI.AllowChanges, MaxPlanRows: int64(cfg.UI.MaxPlanRows), IdempotencyTTL: cfg.Idempotency.TTL,
	}
	settings.Backlog = backlog(app)
	settings.Topics, settings.Settings = cfg.Topics, shownSettings(app.Settings())
	settings.Doctor = func(ctx context.Context) ([]ui.Finding, error) {
		types, err := app.Registry(ctx)
		if err != nil {
			types = registry.New() // the examination will say what is wrong with the database
		}
		return doctor.Run(ctx, doctorParams(app, cfg, types))
	}
	switch cfg.Catalogue {
	case "", registry.Database: // as the database has it from time to time
	case registry.PackFinderz:
		settings.Catalogue = registry.New().Catalogue
	default:
		types, err := app.OpenCatalogue(cfg.Catalogue)
		if err != nil {
			return settings, err
		}
		settings.Catalogue = types.Catalogue
	}
	if cfg.Redis.URL == "" {
		return settings, nil
	}
	var err error
	settings.Redis, err = app.Redis()
	return settings, err
}

func serveUI(ctx context.Context, cfg *cli.Config, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: http.MaxBytesHandler(handler, uiMaxBody), MaxHeaderBytes: uiMaxHeader, ReadTimeout: uiReadTimeout, WriteTimeout: uiWriteTimeout, IdleTimeout: uiIdleTimeout}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- shutDown(ctx, server.Shutdown) })
	defer stop()
	serve := server.Serve
	if cfg.UI.TLSCert != "" {
		serve = func(l net.Listener) error { return server.ServeTLS(l, cfg.UI.TLSCert, cfg.UI.TLSKey) }
	}
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return <-stopped
}

// shutDown ends something after ctx is over, within a limit of its own.
func shutDown(ctx context.Context, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), uiStopTimeout)
	defer cancel()
	return end(ctx)
}

// checkReadRole refuses a role that the page could not read under. A database that does not answer
// is no reason: the page says so itself, and so it does where the default role has no rights.
func checkReadRole(ctx context.Context, pool *pgxpool.Pool, role string) error {
	if role == ui.OwnRights {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // the database may be away
	defer cancel()
	err := pgread.CheckRole(ctx, pool, role)
	if isUIProblem(err) && (role != ui.DefaultReadRole || !errors.Is(err, pgread.ErrNoRights)) {
		return err
	}
	return nil
}

// isUIProblem reports whether another start would end the same way.
func isUIProblem(err error) bool {
	kind, _ := fault.KindOf(err)
	return kind == fault.Usage || kind == fault.Precondition
}

// serveUIProblem answers every request with 503 until ctx ends; the log says what is missing.
func serveUIProblem(ctx context.Context, app *cli.App, problem error) error {
	app.Report(problem)
	cfg := &cli.Config{}
	for _, v := range app.Settings() {
		if v.Key.Name == "ui.addr" {
			cfg.UI.Addr = v.Raw
		}
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.UI.Addr)
	if err != nil {
		return problem
	}
	fmt.Fprintf(app.Err, "answering 503 on %s\n", listener.Addr())
	return serveUI(ctx, cfg, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("this page is not set up: its log says what is missing\n")) // the caller has gone
	}))
}

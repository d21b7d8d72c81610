package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/pgpool"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// A Build is the version of this program and where it came from.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Go      string `json:"go"`
}

func (v Build) String() string {
	return fmt.Sprintf("%s (commit %s, built %s, %s)", v.Version, v.Commit, v.Date, v.Go)
}

// App is what the commands share: the streams, the configuration and the connections. Connections
// are opened when a command first asks for them, so --help dials nothing and a bad flag costs no
// time-out.
type App struct {
	Streams

	Now   func() time.Time
	Build Build
	// Completing: the shell started the program to complete a command line.
	Completing bool

	env    map[string]string
	lookup func(name string) (string, bool)
	sets   func(flag, key string) bool
	dryRun bool // the command that runs has a --dry-run
	// outside: no context applies.
	outside bool
	// settings are those of AllSettings.
	settings []Setting
	cfg      *Config
	issues   []string
	said     bool
	// stateDir is where a dev stack was looked for.
	stateDir string
	lines    *bufio.Reader // what is read of In, line by line
	pool     *pgxpool.Pool
	redis    *redis.Client
	opening  *sync.Mutex // held while the broker is opened: requests to the page come side by side
	broker   broker.Broker
	types    *registry.Registry
	close    []func() error
}

// NewApp returns an App with these streams and this environment. It opens nothing.
func NewApp(streams Streams, environ []string) *App {
	env := make(map[string]string, len(environ))
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}
	return &App{
		Streams: streams,
		Now:     time.Now,
		env:     env,
		lookup:  func(string) (string, bool) { return "", false },
		opening: new(sync.Mutex),
	}
}

// BindFlags remembers the flags of the command that runs; the configuration reads them when it is
// first needed.
func (a *App) BindFlags(cmd *cobra.Command) {
	a.dryRun = cmd.Flags().Lookup("dry-run") != nil
	a.sets = func(flag, key string) bool {
		f := cmd.Flags().Lookup(flag)
		if f == nil {
			return false
		}
		text, ok := f.Value.(*textFlag)
		return ok && slices.Contains(text.keys, key)
	}
	a.lookup = func(name string) (string, bool) {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			return "", false
		}
		if list, ok := f.Value.(pflag.SliceValue); ok && len(list.GetSlice()) == 0 {
			return "", true // it would print as []
		}
		return f.Value.String(), true
	}
}

// Flag returns a flag's text and whether it was given on the command line.
func (a *App) Flag(name string) (text string, given bool) { return a.lookup(name) }

// Env returns a variable of the environment the command was started with.
func (a *App) Env(name string) string { return a.env[name] }

// Quiet leaves out the remark that the servers are those of the running dev stack.
func (a *App) Quiet() { a.said = true }

// AllSettings is Settings, made once: every command that has flags for settings asks for it, and to
// make it for each was most of the time of a start.
func (a *App) AllSettings() []Setting {
	if a.settings == nil {
		a.settings = slices.Clip(Settings())
	}
	return a.settings
}

// Settings lists every setting with its text and its origin, also those that could not be read.
func (a *App) Settings() []ConfigValue { return a.cfg.Values }

// Origin returns where a setting's value came from.
func (a *App) Origin(name string) string { return a.cfg.Origin(name) }

// UnknownVariables finds OUTBOXCTL_ variables that set nothing: mostly typing errors.
func (a *App) UnknownVariables() []string {
	known := []string{"OUTBOXCTL_CONFIG", "OUTBOXCTL_CONTEXT", "OUTBOXCTL_ACTOR"}
	for _, v := range a.cfg.Values {
		known = append(known, v.Key.EnvNames()...)
	}
	for _, k := range Settings() {
		known = append(known, k.EnvNames()...)
	}
	var unknown []string
	for name := range a.env {
		if strings.HasPrefix(name, "OUTBOXCTL_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// Under returns the App that the same command line would have with other environment variables. An
// empty value removes the variable.
func (a *App) Under(changed map[string]string) *App {
	env := maps.Clone(a.env)
	for name, value := range changed {
		if env[name] = value; value == "" {
			delete(env, name)
		}
	}
	return &App{Streams: a.Streams, Now: a.Now, Build: a.Build, env: env, lookup: a.lookup, sets: a.sets, outside: a.outside, opening: new(sync.Mutex)}
}

// RefuseEmpty is for flags that narrow what a command publishes or changes: an empty value is a
// variable that was not set, not a choice, and would widen it to everything.
func (a *App) RefuseEmpty(names ...string) error {
	var problems []string
	for _, name := range names {
		if value, given := a.Flag(name); given && value == "" {
			problems = append(problems, "--"+name+" must not be empty")
		}
	}
	if len(problems) > 0 {
		return fault.Usagef("%s", strings.Join(problems, "; "))
	}
	return nil
}

// Config returns the configuration, read once. The keys named must have a value: a command names
// those it cannot work without, so that a missing one is reported together with everything else
// that is wrong.
func (a *App) Config(required ...string) (*Config, error) {
	a.load()
	problems := slices.Clone(a.issues)
	for _, v := range a.cfg.Values {
		for _, name := range required {
			unknown := a.cfg.noContext && slices.Contains(ServerKeys(), name) // what the context would have set
			if v.Key.Name == name && (!v.set || v.Raw == "") && !unknown {
				problems = append(problems, fmt.Sprintf("%s is not set (--%s or %s)", name, v.Key.Flag, strings.Join(v.Key.EnvNames(), ", ")))
			}
		}
	}
	if len(problems) == 0 {
		a.sayDevStack()
		return a.cfg, nil
	}
	hint := "outboxctl config view shows where each value comes from"
	if len(a.issues) == 0 {
		hint = "outboxctl dev starts a stack that every command finds by itself; " +
			"outboxctl config view shows what is set"
	}
	return nil, fault.Hint(ConfigProblems(problems...), "%s", hint)
}

// BrokerConfig is Config for a command that cannot work without the broker either.
func (a *App) BrokerConfig(required ...string) (*Config, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	return a.Config(append(required, cfg.BrokerKind().Needs...)...)
}

// load reads the configuration once, whatever is wrong with it.
func (a *App) load() *Config {
	if a.cfg == nil {
		a.cfg, a.issues = LoadConfig(ConfigSource{Flag: a.lookup, sets: a.sets, env: a.env, discover: a.discover, outside: a.outside})
	}
	return a.cfg
}

// LeaveContext makes the configuration what it is without any context, for a command that starts
// servers of its own: what a context says would be taken before the addresses of those.
func (a *App) LeaveContext() { a.cfg, a.outside = nil, true }

// discover finds the servers of a running embedded stack.
func (a *App) discover(stateDir string) map[string]string {
	if stateDir == "" {
		stateDir = devstate.DefaultDir(a.Env)
	}
	info, err := devstate.Discover(stateDir)
	if foreign, ok := errors.AsType[*devstate.ForeignError](err); ok {
		fmt.Fprintf(a.Err, "note: the dev stack in %s is not used: %s\n", safetext.Line(stateDir), safetext.Line(foreign.Error()))
	}
	a.stateDir = stateDir
	if err != nil {
		return nil // a stack that cannot be read is as good as none; dev itself reports it
	}
	found := info.Destination()
	found["database.url"], found["redis.url"] = info.DatabaseURL, info.RedisURL
	return found
}

// sayDevStack tells once that the servers are those of the embedded stack: a laptop must not be
// taken for production, or the reverse.
func (a *App) sayDevStack() {
	if a.said || a.cfg.Origin("database.url") != OriginDev {
		return
	}
	a.said = true
	fmt.Fprintln(a.Err, a.Paint(a.ErrTTY, StyleFaint, "using the running dev stack in "+safetext.Line(a.stateDir)))
}

// Pool is the command's connection pool to PostgreSQL, opened and tried on first use.
func (a *App) Pool(ctx context.Context) (*pgxpool.Pool, error) {
	if a.pool != nil {
		return a.pool, nil
	}
	cfg, err := a.Config("database.url")
	if err != nil {
		return nil, err
	}
	pool, err := a.OpenPool(ctx, cfg, PoolParams{Name: "outboxctl", MaxConns: 4})
	if err == nil {
		a.pool = pool
	}
	return pool, err
}

// UsePool makes a pool that the command has opened the one that Pool returns.
func (a *App) UsePool(pool *pgxpool.Pool) { a.pool = pool }

// Reads is the command's pool for reading: no statement waits longer than database.read_timeout.
func (a *App) Reads(ctx context.Context) (*pgread.DB, error) {
	pool, err := a.Pool(ctx)
	if err != nil {
		return nil, err
	}
	return &pgread.DB{Pool: pool, Limits: pgread.Within(a.cfg.Database.ReadTimeout), Setting: "database.read_timeout"}, nil
}

// Redis is the command's Redis client. It is not tried: callers decide what an unreachable Redis
// means to them.
func (a *App) Redis() (*redis.Client, error) {
	if a.redis != nil {
		return a.redis, nil
	}
	cfg, err := a.Config("redis.url")
	if err != nil {
		return nil, err
	}
	client, err := consume.NewClient(cfg.Redis.URL)
	if err != nil {
		// The library's message may quote a part of the URL, and with it the password.
		return nil, ConfigProblems(fmt.Sprintf("redis.url (%s): is not a Redis connection string", cfg.Origin("redis.url")))
	}
	a.redis = client
	a.OnClose(client.Close)
	return client, nil
}

// Outbox opens the installation that the use cases work on. Redis is not dialled: a use case that
// asks the consumers' marks finds out whether it answers.
func (a *App) Outbox(ctx context.Context) (*dlq.Outbox, error) {
	db, err := a.Reads(ctx)
	if err != nil {
		return nil, err
	}
	types, err := a.Registry(ctx)
	if err != nil {
		return nil, err
	}
	o := dlq.New(db, types)
	o.Host = pgpool.Host(db.Pool.Config().ConnConfig)
	if a.cfg.Redis.URL != "" {
		o.Keeper, err = a.Keeper()
	}
	return o, err
}

// LongOutbox is Outbox for a command that chooses or exports a set of any size: a statement may
// take its time, but it waits no longer for a lock.
func (a *App) LongOutbox(ctx context.Context) (*dlq.Outbox, error) {
	o, err := a.Outbox(ctx)
	if err != nil {
		return nil, err
	}
	db, err := a.Reads(ctx)
	if err == nil {
		o.DB = db.With(pgread.Limits{Lock: db.Lock})
	}
	return o, err
}

// ConsumersOutbox opens what can be asked about consumers: Redis, and the database where one is
// configured and answers.
func (a *App) ConsumersOutbox(ctx context.Context) (*dlq.Outbox, error) {
	keeper, err := a.Keeper()
	if err != nil {
		return nil, err
	}
	o := dlq.New(nil, registry.New())
	o.Keeper = keeper
	if a.cfg.Database.URL == "" {
		return o, nil
	}
	if db, err := a.Reads(ctx); err == nil {
		o.DB = db
	} else {
		fmt.Fprintln(a.Err, "note: the database does not answer, so the inbox is not shown")
	}
	return o, nil
}

// Keeper is the command's view of the idempotency keys.
func (a *App) Keeper() (*idem.Keeper, error) {
	rdb, err := a.Redis()
	if err != nil {
		return nil, err
	}
	return idem.New(rdb, a.load().Idempotency.TTL), nil
}

// OnClose registers what Close undoes, last opened first.
func (a *App) OnClose(f func() error) { a.close = append(a.close, f) }

// Close gives back what was opened.
func (a *App) Close() error {
	var errs []error
	for _, undo := range slices.Backward(a.close) {
		errs = append(errs, undo())
	}
	a.close = nil
	return errors.Join(errs...)
}

package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/pubsub"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// App is what the commands share: the streams, the configuration and the connections. Connections are opened when a
// command first asks for them, so --help dials nothing and a bad flag costs no time-out.
type App struct {
	Streams

	Registry *registry.Registry
	Now      func() time.Time

	env    map[string]string
	flag   func(name string) (string, bool)
	dryRun bool // the command that runs has a --dry-run
	cfg    *Config
	issues []string
	said   bool
	pool   *pgxpool.Pool
	redis  *redis.Client
	broker *pubsub.Client
	close  []func() error
}

func newApp(streams Streams, environ []string) *App {
	env := make(map[string]string, len(environ))
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}
	return &App{
		Streams:  streams,
		Registry: registry.New(),
		Now:      time.Now,
		env:      env,
		flag:     func(string) (string, bool) { return "", false },
	}
}

// bindFlags remembers the flags of the command that runs; the configuration reads them when it is first needed.
func (a *App) bindFlags(cmd *cobra.Command) {
	a.dryRun = cmd.Flags().Lookup("dry-run") != nil
	a.flag = func(name string) (string, bool) {
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

// refuseEmpty is for flags that narrow what a command publishes or changes: an empty value is a variable that was not
// set, not a choice, and would widen it to everything.
func (a *App) refuseEmpty(names ...string) error {
	var problems []string
	for _, name := range names {
		if value, given := a.flag(name); given && value == "" {
			problems = append(problems, "--"+name+" must not be empty")
		}
	}
	if len(problems) > 0 {
		return usageErrorf("%s", strings.Join(problems, "; "))
	}
	return nil
}

// Config returns the configuration, read once. The keys named must have a value: a command names those it cannot
// work without, so that a missing one is reported together with everything else that is wrong.
func (a *App) Config(required ...string) (*Config, error) {
	if a.cfg == nil {
		a.cfg, a.issues = loadConfig(configSource{flag: a.flag, env: a.env, discover: a.discover})
	}
	problems := append([]string(nil), a.issues...)
	for _, v := range a.cfg.values {
		for _, name := range required {
			if v.key.name == name && (!v.set || v.raw == "") {
				problems = append(problems, fmt.Sprintf("%s is not set (--%s or %s)", name, v.key.flag, strings.Join(v.key.envNames(), ", ")))
			}
		}
	}
	if len(problems) == 0 {
		a.sayDevStack()
		return a.cfg, nil
	}
	err := error(&configError{problems})
	if len(a.issues) == 0 {
		err = withHint(err, "outboxctl dev starts a stack that every command finds by itself; outboxctl config view shows what is set")
	} else {
		err = withHint(err, "outboxctl config view shows where each value comes from")
	}
	return nil, err
}

// discover finds the servers of a running embedded stack.
func (a *App) discover(stateDir string) (map[string]string, bool) {
	if stateDir == "" {
		stateDir = devstack.DefaultDir(func(name string) string { return a.env[name] })
	}
	info, err := devstack.Discover(stateDir)
	if err != nil {
		return nil, false // a stack that cannot be read is as good as none; dev itself reports it
	}
	return map[string]string{
		"database.url":    info.DatabaseURL,
		"redis.url":       info.RedisURL,
		"pubsub.project":  info.PubSubProject,
		"pubsub.emulator": info.PubSubEmulator,
	}, true
}

// sayDevStack tells once that the servers are those of the embedded stack: nobody should take a laptop for production,
// or the reverse.
func (a *App) sayDevStack() {
	if a.said || a.cfg.origin("database.url") != originDev {
		return
	}
	a.said = true
	fmt.Fprintln(a.Err, a.paint(a.ErrTTY, styleFaint, "using the running dev stack"))
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
	pool, err := openPool(ctx, cfg, poolParams{name: "outboxctl", maxConns: 4})
	if err != nil {
		return nil, err
	}
	a.pool = pool
	a.onClose(func() error { pool.Close(); return nil })
	return pool, nil
}

// Redis is the command's Redis client. It is not tried: callers decide what an unreachable Redis means to them.
func (a *App) Redis() (*redis.Client, error) {
	if a.redis != nil {
		return a.redis, nil
	}
	cfg, err := a.Config("redis.url")
	if err != nil {
		return nil, err
	}
	client, err := idem.NewClient(cfg.Redis.URL)
	if err != nil {
		// The library's message may quote a part of the URL, and with it the password.
		return nil, &configError{[]string{fmt.Sprintf("redis.url (%s): is not a Redis connection string", cfg.origin("redis.url"))}}
	}
	a.redis = client
	a.onClose(client.Close)
	return client, nil
}

// Log is the structured log on Err: JSON, or for people when Err is a terminal and nobody chose a format.
func (a *App) Log() zerolog.Logger {
	level, format := zerolog.InfoLevel, "json"
	if a.cfg != nil {
		level, format = parseLevel(a.cfg.Log.Level), a.cfg.Log.Format
		if a.ErrTTY && a.cfg.origin("log.format") == originDefault {
			format = "console"
		}
	}
	if format == "console" {
		w := zerolog.ConsoleWriter{Out: a.Err, TimeFormat: time.TimeOnly, NoColor: !a.ErrTTY || a.noColor()}
		return zerolog.New(w).Level(level).With().Timestamp().Logger()
	}
	return zerolog.New(a.Err).Level(level).With().Timestamp().Logger()
}

func parseLevel(name string) zerolog.Level {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		return zerolog.InfoLevel
	}
	return level
}

// onClose registers what Close undoes, last opened first.
func (a *App) onClose(f func() error) { a.close = append(a.close, f) }

// Close gives back what was opened.
func (a *App) Close() error {
	var errs []error
	for i := len(a.close) - 1; i >= 0; i-- {
		errs = append(errs, a.close[i]())
	}
	a.close = nil
	return errors.Join(errs...)
}

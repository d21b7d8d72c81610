package rig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// World is the servers of a run, and what else was started in it. Its methods end the run by Check.
type World struct {
	// Dir takes the servers' state and the processes' logs.
	Dir string
	// Program is outboxctl.
	Program  string
	Postgres *devstack.Postgres
	Redis    *devstack.Redis // nil unless it was started
	Broker   *Broker

	started int
	closers []func() error
}

// OnClose has f called by Close.
func (w *World) OnClose(f func() error) { w.closers = append(w.closers, f) }

// Close ends everything, in the reverse order of its start.
func (w *World) Close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	w.closers = nil
	return errors.Join(errs...)
}

// stopping bounds a server's end.
func (w *World) stopping(stop func(context.Context) error) {
	w.OnClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		return stop(ctx)
	})
}

// StartPostgres starts a server. The first is the world's Postgres.
func (w *World) StartPostgres(ctx context.Context, p devstack.PostgresParams) *devstack.Postgres {
	server := Must(devstack.StartPostgres(ctx, p))
	w.stopping(server.Stop)
	if w.Postgres == nil {
		w.Postgres = server
	}
	return server
}

// StartRedis starts the world's Redis.
func (w *World) StartRedis(ctx context.Context) {
	w.Redis = Must(devstack.StartRedis(ctx, devstack.RedisParams{Dir: w.Dir}))
	w.stopping(w.Redis.Stop)
}

// StartBroker starts the world's broker, behind a front where it names one.
func (w *World) StartBroker(ctx context.Context, b *Broker) {
	b.PubSub = Must(devstack.StartPubSub(ctx, devstack.PubSubParams{}))
	w.stopping(b.Stop)
	w.Broker = b
	if b.Front != "" {
		w.startFront(ctx, b)
		return
	}
	b.front = bare{b.PubSub}
	b.OnPublish(b.publish)
	b.OnAnswer(b.answer)
	b.RejectMessages(b.rejects)
}

// CreateDatabase makes one and returns its URL.
func (w *World) CreateDatabase(ctx context.Context, server *devstack.Postgres, name string) string {
	admin := Must(pgx.Connect(ctx, server.URL("postgres")))
	_, err := admin.Exec(ctx, "CREATE DATABASE "+name)
	if err = errors.Join(err, admin.Close(ctx)); err != nil {
		Check(fmt.Errorf("create database %s: %w", name, err))
	}
	return server.URL(name)
}

// Pool opens connections that are closed with the world.
func (w *World) Pool(ctx context.Context, rawURL string, conns int32) *pgxpool.Pool {
	cfg := Must(pgxpool.ParseConfig(rawURL))
	if conns > 0 {
		cfg.MaxConns = conns
	}
	pool := Must(pgxpool.NewWithConfig(ctx, cfg))
	w.OnClose(func() error { pool.Close(); return nil })
	return pool
}

// Env is what every outboxctl of the run gets; nothing of the caller's environment but the path.
func (w *World) Env(databaseURL string, more ...string) []string {
	env := append(w.base(databaseURL), bare{w.Broker.PubSub}.Env(w.Broker.PubSub.Addr())...)
	if w.Redis != nil {
		env = append(env, "OUTBOXCTL_REDIS_URL="+w.Redis.URL())
	}
	return append(env, more...)
}

func (w *World) base(databaseURL string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir, "OUTBOXCTL_ACTOR=operator",
		"OUTBOXCTL_DATABASE_URL=" + databaseURL}
}

// PublisherEnv is Env for a publisher, which reaches the broker at an address.
func (w *World) PublisherEnv(databaseURL, addr string) []string {
	return append(w.base(databaseURL), w.Broker.front.Env(addr)...)
}

// Outboxctl runs a command of the program, which must be a success, and returns what it printed.
func (w *World) Outboxctl(ctx context.Context, env []string, args ...string) string {
	ran := Command(ctx, env, "", w.Program, args...)
	if ran.Exit != 0 {
		Check(fmt.Errorf("outboxctl %s: exit code %d: %s", strings.Join(args, " "), ran.Exit, ran.Stderr))
	}
	return ran.Stdout
}

func parsed(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err) // our own servers' URLs parse
	}
	return u
}

// HostOf is the host and port of a server's URL.
func HostOf(raw string) string { return parsed(raw).Host }

// WithHost leads a URL elsewhere.
func WithHost(raw, host string) string {
	u := parsed(raw)
	u.Host = host
	return u.String()
}

// WithParams adds parameters to a URL, given as names and values in turn.
func WithParams(raw string, pairs ...string) string {
	u := parsed(raw)
	q := u.Query()
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// StateDir makes a folder, a temporary one when it has no name, that the servers' unprivileged user
// can enter.
func StateDir(dir string) string {
	if dir == "" {
		dir = Must(os.MkdirTemp("", "outboxctl-*"))
	}
	dir = Must(filepath.Abs(dir))
	Check(errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)))
	return dir
}

// FakeTime is where libfaketime is, which makes a server's clock wrong, or nothing.
func FakeTime() string {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1") // fails only on a malformed pattern
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

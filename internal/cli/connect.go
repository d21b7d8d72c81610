package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/pgpool"
)

// ConnectTimeout bounds one attempt to connect.
const ConnectTimeout = pgpool.ConnectTimeout

// PoolParams is what differs between the pools of one process.
type PoolParams = pgpool.Params

// OpenPool opens a pool that is closed with the App, and tries it once, so that a wrong address is
// an error now and not in the middle of the work.
func (a *App) OpenPool(ctx context.Context, cfg *Config, p PoolParams) (*pgxpool.Pool, error) {
	pool, err := newPool(ctx, cfg, p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, max(ConnectTimeout, pool.Config().ConnConfig.ConnectTimeout))
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		pool.Close() // at once: it may be tried again for as long as somebody watches
		return nil, databaseError(cfg, err)
	}
	a.OnClose(func() error { pool.Close(); return nil })
	return pool, nil
}

// LazyPool is OpenPool for a server that need not answer yet.
func (a *App) LazyPool(ctx context.Context, cfg *Config, p PoolParams) (*pgxpool.Pool, error) {
	pool, err := newPool(ctx, cfg, p)
	if err == nil {
		a.OnClose(func() error { pool.Close(); return nil })
	}
	return pool, err
}

func newPool(ctx context.Context, cfg *Config, p PoolParams) (*pgxpool.Pool, error) {
	pc, err := pgpool.Config(cfg.Database.URL, p)
	if err != nil {
		return nil, databaseError(cfg, err)
	}
	if cfg.Origin("database.exec_mode") != OriginDefault ||
		!strings.Contains(cfg.Database.URL, "default_query_exec_mode") {
		pc.ConnConfig.DefaultQueryExecMode = execMode(cfg.Database.ExecMode)
	}
	// The second line: no command that writes comes here, and what one that reads does wrong is
	// refused by the server.
	if cfg.ReadOnly() {
		pc.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, databaseError(cfg, err)
	}
	return pool, nil
}

func execMode(name string) pgx.QueryExecMode {
	switch name {
	case "cache_describe":
		return pgx.QueryExecModeCacheDescribe
	case "describe_exec":
		return pgx.QueryExecModeDescribeExec
	case "exec":
		return pgx.QueryExecModeExec
	case "simple_protocol":
		return pgx.QueryExecModeSimpleProtocol
	default:
		return pgx.QueryExecModeCacheStatement
	}
}

// RemoteDatabase reports whether the database, or one of its hosts, is on another machine.
func (c *Config) RemoteDatabase() bool {
	pc, err := pgxpool.ParseConfig(c.Database.URL)
	if err != nil || c.Origin("database.url") == OriginDev {
		return false
	}
	return !pgpool.IsLocal(pc.ConnConfig.Host) ||
		slices.ContainsFunc(pc.ConnConfig.Fallbacks,
			func(f *pgconn.FallbackConfig) bool { return !pgpool.IsLocal(f.Host) })
}

// RefuseStrayEmulator refuses to publish a remote database's events to an emulator: they would be
// marked as published, and no subscriber would ever get them. Only the flag tells that it is meant;
// a variable or a file may be left over.
func (a *App) RefuseStrayEmulator() error {
	if _, meant := a.Flag("emulator"); meant || a.cfg.Value("pubsub.emulator") == "" ||
		!a.cfg.RemoteDatabase() {
		return nil
	}
	emulator, origin := a.cfg.Value("pubsub.emulator"), a.cfg.Origin("pubsub.emulator")
	return fault.Hint(fault.Usagef("pubsub.emulator is %s (%s) beside a database on another machine: its events would be marked as published without reaching Pub/Sub", emulator, origin),
		"remove the setting (%s), or add --emulator %s if it is meant", origin, emulator)
}

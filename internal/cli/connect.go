package cli

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// ConnectTimeout bounds one attempt to connect.
const ConnectTimeout = 5 * time.Second

// PoolParams is what differs between the pools of one process.
type PoolParams struct {
	Name     string // application_name
	MaxConns int32
	Writable bool // refuse a server that is read-only
}

// OpenPool opens a pool and tries it once, so that a wrong address is an error now and not in the middle of the work.
func OpenPool(ctx context.Context, cfg *Config, p PoolParams) (*pgxpool.Pool, error) {
	pc, err := PoolConfig(cfg, p)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, databaseError(cfg, err)
	}
	ctx, cancel := context.WithTimeout(ctx, ConnectTimeout)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, databaseError(cfg, err)
	}
	return pool, nil
}

// PoolConfig is the configuration that OpenPool uses.
func PoolConfig(cfg *Config, p PoolParams) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(secureURL(cfg.Database.URL))
	if err != nil {
		return nil, databaseError(cfg, err)
	}
	if cfg.Origin("database.exec_mode") != OriginDefault || !strings.Contains(cfg.Database.URL, "default_query_exec_mode") {
		pc.ConnConfig.DefaultQueryExecMode = execMode(cfg.Database.ExecMode)
	}
	if !strings.Contains(cfg.Database.URL, "pool_max_conns") {
		pc.MaxConns = p.MaxConns
	}
	pc.ConnConfig.ConnectTimeout = ConnectTimeout
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = p.Name
	}
	// A role or a database may have other defaults, and payloads and times are read as text. Poolers know these two.
	pc.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	pc.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	if cfg.Context != nil && cfg.Context.ReadOnly {
		pc.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	if p.Writable {
		onlyWritable(pc)
	}
	return pc, nil
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

// secureURL asks for a verified TLS connection when the server is not on this machine and no mode was chosen: the
// driver's own default, prefer, falls back to plain text without a word.
func secureURL(raw string) string {
	if strings.Contains(raw, "sslmode") || os.Getenv("PGSSLMODE") != "" {
		return raw
	}
	pc, err := pgxpool.ParseConfig(raw)
	if err != nil || isLocal(pc.ConnConfig.Host) {
		return raw
	}
	switch {
	case !strings.Contains(raw, "://"):
		return raw + " sslmode=verify-full"
	case strings.Contains(raw, "?"):
		return raw + "&sslmode=verify-full"
	default:
		return raw + "?sslmode=verify-full"
	}
}

// RemoteDatabase reports whether the database, or one of its hosts, is on another machine.
func (c *Config) RemoteDatabase() bool {
	pc, err := pgxpool.ParseConfig(c.Database.URL)
	if err != nil || c.Origin("database.url") == OriginDev {
		return false
	}
	return !isLocal(pc.ConnConfig.Host) ||
		slices.ContainsFunc(pc.ConnConfig.Fallbacks, func(f *pgconn.FallbackConfig) bool { return !isLocal(f.Host) })
}

// RefuseStrayEmulator refuses to publish a remote database's events to an emulator: they would be marked as published,
// and no subscriber would ever get them. Only the flag tells that it is meant; a variable or a file may be left over.
func (a *App) RefuseStrayEmulator() error {
	if _, meant := a.Flag("emulator"); meant || a.cfg.PubSub.Emulator == "" || !a.cfg.RemoteDatabase() {
		return nil
	}
	emulator, origin := a.cfg.PubSub.Emulator, a.cfg.Origin("pubsub.emulator")
	return fault.Hint(fault.Usagef("pubsub.emulator is %s (%s) beside a database on another machine: its events would be marked as published without reaching Pub/Sub", emulator, origin),
		"remove the setting (%s), or add --emulator %s if it is meant", origin, emulator)
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	if host == "" || host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// onlyWritable makes a new connection prove that its server accepts writes.
func onlyWritable(pc *pgxpool.Config) {
	if pc.ConnConfig.ValidateConnect == nil {
		pc.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

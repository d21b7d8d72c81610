package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

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

// secureURL asks for a verified TLS connection when the server is not on this machine and nobody chose a mode: the
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

// RemoteDatabase reports whether the database is on another machine.
func (c *Config) RemoteDatabase() bool {
	pc, err := pgxpool.ParseConfig(c.Database.URL)
	return err == nil && c.Origin("database.url") != OriginDev && !isLocal(pc.ConnConfig.Host)
}

func isLocal(host string) bool {
	if host == "" || host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// databaseError says which server did not answer, without its password, and what to try.
func databaseError(cfg *Config, err error) error {
	wrapped := fault.Preconditionf("connect to the database %s: %w", safetext.URL(cfg.Database.URL), err)
	if strings.Contains(err.Error(), "x509") || strings.Contains(err.Error(), "tls") {
		return fault.Hint(wrapped, "the server's certificate could not be verified; add sslmode=require to the connection string to accept it unverified")
	}
	if errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "refused") {
		return fault.Hint(wrapped, "outboxctl config view shows where database.url comes from; outboxctl dev starts a local stack")
	}
	return wrapped
}

// onlyWritable makes a new connection prove that its server accepts writes.
func onlyWritable(pc *pgxpool.Config) {
	if pc.ConnConfig.ValidateConnect == nil {
		pc.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

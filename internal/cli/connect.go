package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/pgpool"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
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

// databaseError names the server that could not be used, without its password, what is wrong with
// it, and what to try.
func databaseError(cfg *Config, err error) error {
	problem, hint := connectProblem(err)
	wrapped := fault.Preconditionf("connect to the database %s: %w", safetext.URL(cfg.Database.URL),
		fault.Reword(err, "%s", problem))
	return fault.Hint(wrapped, "%s", hint)
}

// connectProblem explains what went wrong and gives advice, by the type of the error. The driver
// may have tried several addresses, with and without TLS, and its error holds all their errors:
// what the server itself answered counts first.
func connectProblem(err error) (problem, hint string) {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answerProblem(answer)
	}
	if badCertificate(err) {
		return "the server's certificate could not be verified", "add sslmode=require to the connection string to accept it unverified"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return "the host's name is not known", "outboxctl config view shows where database.url comes from"
	}
	const where = "outboxctl config view shows where database.url comes from; outboxctl dev starts a local stack"
	network, ofNetwork := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no server answers there (connection refused)", where
	case errors.Is(err, context.DeadlineExceeded), ofNetwork && network.Timeout():
		return "the server gives no answer in time", where
	case ofNetwork:
		return oneLine(err), where
	}
	connect, refused := errors.AsType[*pgconn.ConnectError](err)
	if refused && connect.Config.TLSConfig != nil {
		return "the server offers no TLS", "add sslmode=disable to the connection string to connect without, over a network that is trusted"
	}
	return oneLine(err), ""
}

// oneLine is an error of which the driver writes a line for each address.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func answerProblem(answer *pgconn.PgError) (problem, hint string) {
	const correct = "correct database.url; outboxctl config view shows where it comes from"
	switch answer.Code {
	case pgerrcode.InvalidCatalogName:
		return "the server has no database of that name", "create it (createdb), or " + correct
	case pgerrcode.InvalidPassword:
		return "the server refuses this user or password", correct
	case pgerrcode.InvalidAuthorizationSpecification:
		return "the server has no such user, or pg_hba.conf does not let it in from here", correct
	case pgerrcode.InsufficientPrivilege:
		return "this user may not connect to that database", "GRANT CONNECT ON DATABASE lets it in"
	case pgerrcode.TooManyConnections:
		return "no connection is left: " + answer.Message, "raise max_connections (or the CONNECTION LIMIT of the role or database), or end idle sessions; " +
			"a superuser sees who holds them: SELECT application_name, usename, state, count(*) FROM pg_stat_activity GROUP BY 1, 2, 3 ORDER BY 4 DESC"
	case pgerrcode.CannotConnectNow:
		return "the server is starting or stopping", "try again"
	default:
		return "the server answers: " + answer.Message, ""
	}
}

func badCertificate(err error) bool {
	return is[*tls.CertificateVerificationError](err) || is[x509.UnknownAuthorityError](err) ||
		is[x509.HostnameError](err) || is[x509.CertificateInvalidError](err) ||
		is[x509.SystemRootsError](err)
}

// is reports whether an error of that type is in the chain.
func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}

// UsesRedis reports whether a setting says that consumers run here.
func (c *Config) UsesRedis() bool {
	return slices.ContainsFunc([]string{"redis.url", "idempotency.ttl", "consume.http_addr"}, func(key string) bool {
		return c.Origin(key) != OriginDefault && (key != "redis.url" || c.Redis.URL != "")
	})
}

// Probes ask Redis and the broker whether they answer. Neither is asked while it is not configured.
func (a *App) Probes() []stats.Probe {
	var probes []stats.Probe
	if client, err := a.Redis(); err == nil && a.cfg.UsesRedis() {
		probes = append(probes, stats.Probe{Name: "redis", Run: func(ctx context.Context) error { return client.Ping(ctx).Err() }})
	}
	if name, addr := a.brokerAddr(); addr != "" {
		probes = append(probes, stats.Probe{Name: name, Run: func(ctx context.Context) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			return conn.Close()
		}})
	}
	return probes
}

// brokerAddr is where the configured broker answers.
func (a *App) brokerAddr() (name, addr string) {
	if a.cfg == nil || a.cfg.BrokerKind().Addr == nil {
		return "", ""
	}
	kind := a.cfg.BrokerKind()
	return kind.Name, kind.Addr(a.cfg.Value)
}

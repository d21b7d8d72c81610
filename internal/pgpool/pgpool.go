// Package pgpool configures the connections on which the outbox works.
package pgpool

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ConnectTimeout bounds one attempt to connect.
const ConnectTimeout = 5 * time.Second

// Params is what differs between the pools of one process.
type Params struct {
	Name     string // application_name
	MaxConns int32
	Writable bool // refuse a server that is read-only
}

// Config is the configuration of a pool for a URL, whose own settings win.
func Config(raw string, p Params) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(SecureURL(raw))
	if err != nil {
		return nil, err
	}
	if !sets(raw, "pool_max_conns") {
		pc.MaxConns = p.MaxConns
	}
	pc.ConnConfig.ConnectTimeout = cmp.Or(pc.ConnConfig.ConnectTimeout, ConnectTimeout)
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = p.Name
	}
	// A role or a database may have other defaults, and payloads and times are read as text. Poolers
	// know these two.
	pc.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	pc.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	// A new connection proves that its server accepts writes.
	if p.Writable && pc.ConnConfig.ValidateConnect == nil {
		pc.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return pc, nil
}

// SecureURL asks for a verified TLS connection when a server is not on this machine and no mode was
// chosen: the driver's own default, prefer, falls back to plain text without a word.
func SecureURL(raw string) string {
	if sets(raw, "sslmode") || os.Getenv("PGSSLMODE") != "" {
		return raw
	}
	pc, err := pgxpool.ParseConfig(raw)
	if err != nil {
		return raw
	}
	remote := func(f *pgconn.FallbackConfig) bool { return !IsLocal(f.Host) }
	switch {
	case IsLocal(pc.ConnConfig.Host) && !slices.ContainsFunc(pc.ConnConfig.Fallbacks, remote):
		return raw
	case !isURL(raw):
		return raw + " sslmode=verify-full"
	case strings.Contains(raw, "?"):
		return raw + "&sslmode=verify-full"
	default:
		return raw + "?sslmode=verify-full"
	}
}

func isURL(raw string) bool {
	return strings.HasPrefix(raw, "postgres://") || strings.HasPrefix(raw, "postgresql://")
}

// sets reports whether a connection string sets a parameter.
func sets(raw, name string) bool {
	if isURL(raw) {
		_, query, _ := strings.Cut(raw, "?")
		values, err := url.ParseQuery(query)
		return err == nil && values.Has(name)
	}
	quoted := regexp.MustCompile(`'(?:[^'\\]|\\.)*'`) // such a value may hold anything
	return regexp.MustCompile(`(?:^|\s)` + name + `\s*=`).MatchString(quoted.ReplaceAllString(raw, "''"))
}

// IsLocal reports whether a host is this machine.
func IsLocal(host string) bool {
	if host == "" || host == "localhost" || strings.HasPrefix(host, "/") ||
		strings.HasPrefix(host, "@") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Host is where a server is reached, for a person; the folder of a socket stands for this machine.
func Host(c *pgx.ConnConfig) string {
	if strings.HasPrefix(c.Host, "/") {
		return "localhost"
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}

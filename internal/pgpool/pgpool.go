// Package pgpool configures the connections on which the outbox works.
package pgpool

import (
	"net"
	"os"
	"strings"
	"time"

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
func Config(url string, p Params) (*pgxpool.Config, error) {
	pc, err := pgxpool.ParseConfig(SecureURL(url))
	if err != nil {
		return nil, err
	}
	if !strings.Contains(url, "pool_max_conns") {
		pc.MaxConns = p.MaxConns
	}
	pc.ConnConfig.ConnectTimeout = ConnectTimeout
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = p.Name
	}
	// A role or a database may have other defaults, and payloads and times are read as text. Poolers know these two.
	pc.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
	pc.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	// A new connection proves that its server accepts writes.
	if p.Writable && pc.ConnConfig.ValidateConnect == nil {
		pc.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return pc, nil
}

// SecureURL asks for a verified TLS connection when the server is not on this machine and no mode was chosen: the
// driver's own default, prefer, falls back to plain text without a word.
func SecureURL(raw string) string {
	if strings.Contains(raw, "sslmode") || os.Getenv("PGSSLMODE") != "" {
		return raw
	}
	pc, err := pgxpool.ParseConfig(raw)
	if err != nil || IsLocal(pc.ConnConfig.Host) {
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

// IsLocal reports whether a host is this machine.
func IsLocal(host string) bool {
	if host == "" || host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

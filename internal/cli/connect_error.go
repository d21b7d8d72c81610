package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// databaseError names the server that could not be used, without its password, what is wrong with
// it, and what to try.
func databaseError(cfg *Config, err error) error {
	problem, hint := connectProblem(err)
	wrapped := fault.Preconditionf("connect to the database %s: %w", safetext.URL(cfg.Database.URL),
		fault.Reword(err, "%s", problem))
	if hint != "" {
		return fault.Hint(wrapped, "%s", hint)
	}
	return wrapped
}

// connectProblem explains what went wrong and gives advice, by the type of the error. The driver
// may have tried several addresses, with and without TLS, and its error holds all their errors:
// what the server itself answered counts first.
func connectProblem(err error) (problem, hint string) {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answerProblem(answer)
	}
	if badCertificate(err) {
		return "the server's certificate could not be verified", "add sslmode=require to the connection string to accept it unverified"
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return "the host's name is not known", "outboxctl config view shows where database.url comes from"
	}
	const where = "outboxctl config view shows where database.url comes from; outboxctl dev starts a local stack"
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no server answers there (connection refused)", where
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "the server gives no answer in time", where
	case errors.As(err, &network):
		return oneLine(err), where
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) && connect.Config.TLSConfig != nil {
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
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		roots        x509.SystemRootsError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &invalid) || errors.As(err, &roots)
}

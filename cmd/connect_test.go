package cmd

import (
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// The advice belongs to what went wrong: where TLS is optional, the driver's error also tells that the server has none.
func TestAConnectionThatFailsGetsTheRightHint(t *testing.T) {
	t.Parallel()
	wrong := func(change func(*url.URL)) string {
		u, err := url.Parse(outboxtest.EmptyDB(t).URL)
		require.NoError(t, err)
		u.RawQuery = "" // as people write it: TLS where the server has it
		change(u)
		return u.String()
	}
	cert := httptest.NewTLSServer(nil)
	t.Cleanup(cert.Close)
	for name, tc := range map[string]struct{ url, problem, hint string }{
		"database":    {wrong(func(u *url.URL) { u.Path = "/no_such_database" }), "the server has no database of that name", "createdb"},
		"user":        {wrong(func(u *url.URL) { u.User = url.User("no_such_user") }), "the server (has no such user, or pg_hba.conf does not let it in from here|refuses this user or password)", "correct database.url"},
		"port":        {"postgres://127.0.0.1:1/x", `no server answers there \(connection refused\)`, "where database.url comes from"},
		"host":        {"postgres://no-such-host.invalid/x", ".*", "database.url comes from"},
		"certificate": {"postgres://" + tlsServer(t, cert.TLS.Certificates) + "/x?sslmode=verify-full", "the server's certificate could not be verified", "sslmode=require"},
		"no TLS":      {"postgres://" + tlsServer(t, nil) + "/x?sslmode=verify-full", "the server offers no TLS", "sslmode=disable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := runCLI(t, []string{"DATABASE_URL=" + tc.url}, "stats")
			require.Equal(t, cli.ExitPrecondition, code, stderr)
			require.Regexp(t, `^error: connect to the database \S+: `+tc.problem+`\nhint: .*`+tc.hint, stderr)
			if name != "certificate" {
				require.NotContains(t, stderr, "certificate")
			}
		})
	}
}

// tlsServer answers a client's request for TLS and nothing else: with a handshake, or without certificates with a no.
func tlsServer(t *testing.T, certificates []tls.Certificate) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if _, err := io.ReadFull(conn, make([]byte, 8)); err != nil {
					return
				}
				if certificates == nil {
					_, _ = conn.Write([]byte("N"))
					return
				}
				_, _ = conn.Write([]byte("S"))
				_ = tls.Server(conn, &tls.Config{Certificates: certificates}).HandshakeContext(t.Context())
			}()
		}
	}()
	return listener.Addr().String()
}

// An emulator that was left set must not swallow the events of a real database.
func TestPublishRefusesAnEmulatorBesideARemoteDatabase(t *testing.T) {
	t.Parallel()
	const remote, local = "postgres://db.invalid/x", "postgres://127.0.0.1:1/x"
	for name, tc := range map[string]struct {
		database string
		env      string
		args     []string
		want     int
	}{
		"variable":                 {remote, "PUBSUB_EMULATOR_HOST=127.0.0.1:1", nil, cli.ExitUsage},
		"our variable":             {remote, "OUTBOXCTL_PUBSUB_EMULATOR=127.0.0.1:1", nil, cli.ExitUsage},
		"one of several hosts":     {"postgres://127.0.0.1:1,db.invalid:1/x", "PUBSUB_EMULATOR_HOST=127.0.0.1:1", nil, cli.ExitUsage},
		"the flag tells":           {remote, "PUBSUB_EMULATOR_HOST=127.0.0.1:1", []string{"--emulator", "127.0.0.1:1"}, cli.ExitPrecondition},
		"no emulator":              {remote, "PUBSUB_EMULATOR_HOST=", nil, cli.ExitPrecondition},
		"database on this machine": {local, "PUBSUB_EMULATOR_HOST=127.0.0.1:1", nil, cli.ExitPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ := []string{"DATABASE_URL=" + tc.database, "GOOGLE_CLOUD_PROJECT=shop-project", "HOME=" + t.TempDir(), tc.env}
			code, _, stderr := runCLI(t, environ, append([]string{"publish", "--once"}, tc.args...)...)
			require.Equal(t, tc.want, code, stderr)
			require.Equal(t, tc.want == cli.ExitUsage, strings.Contains(stderr, "hint: remove the setting"), stderr)
		})
	}
}

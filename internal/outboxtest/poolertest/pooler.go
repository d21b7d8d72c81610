// Package poolertest starts pgbouncer.
package poolertest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// A Pooler is a pgbouncer that lends a connection to its server for one transaction at a time.
type Pooler struct {
	cmd           *exec.Cmd
	database, dir string
	port          int
}

// Program is where pgbouncer is, empty when it is not installed. Debian keeps it off most people's
// path.
func Program() string {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Start starts a pooler in front of a server's database and waits until it answers.
func Start(ctx context.Context, server *devstack.Postgres, database string) (*Pooler, error) {
	port, err := devstack.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pooler")
	if err != nil {
		return nil, err
	}
	p := &Pooler{database: database, dir: dir, port: port}
	if err := errors.Join(os.Chmod(dir, 0o755), p.write(server)); err != nil { // nobody reads it again
		return nil, err
	}
	args := []string{"-q", p.file()}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...) // it refuses to be root
	}
	p.cmd = exec.Command(Program(), args...)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for {
		conn, err := pgx.Connect(ctx, p.URL(server))
		if err == nil {
			return p, conn.Close(ctx)
		}
		if wait.For(ctx, 50*time.Millisecond) != nil {
			return nil, errors.Join(fmt.Errorf("pgbouncer does not answer: %w", err), p.Stop())
		}
	}
}

func (p *Pooler) file() string { return filepath.Join(p.dir, "pgbouncer.ini") }

// URL is that of the server's database, by way of the pooler.
func (p *Pooler) URL(server *devstack.Postgres) string {
	through, err := url.Parse(server.URL(p.database))
	if err != nil {
		panic(err) // the server has made it
	}
	through.Host = fmt.Sprintf("127.0.0.1:%d", p.port)
	return through.String()
}

// Point leads to another server from now on.
func (p *Pooler) Point(server *devstack.Postgres) error {
	if err := p.write(server); err != nil {
		return err
	}
	return p.cmd.Process.Signal(syscall.SIGHUP)
}

func (p *Pooler) write(server *devstack.Postgres) error {
	there, err := url.Parse(server.URL("postgres"))
	if err != nil {
		return err
	}
	password, _ := there.User.Password()
	text := fmt.Sprintf(`[databases]
%s = host=127.0.0.1 port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
auth_type = any
pool_mode = transaction
default_pool_size = 10
server_login_retry = 1
unix_socket_dir =
`, p.database, there.Port(), there.User.Username(), password, p.port)
	return os.WriteFile(p.file(), []byte(text), 0o644)
}

// Stop kills it.
func (p *Pooler) Stop() error {
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed
	return errors.Join(err, os.RemoveAll(p.dir))
}

package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// postgresKill ends PostgreSQL as a crash would. It gives its own processes five seconds before it
// kills them.
func postgresKill() endStep { return endStep{syscall.SIGQUIT, 15 * time.Second} }

// PostgresParams describes how to start a private PostgreSQL.
type PostgresParams struct {
	// Dir is the state folder. The cluster lives in its subfolder "postgres" and is created when
	// missing.
	Dir string
	// Port to listen on; 0 picks a free one. With AnyPort a free one also does when Port is taken.
	Port    int
	AnyPort bool
	// Durable keeps the defaults that survive a power cut. Without it the server is several times
	// faster and the data is only as safe as the machine: right for tests.
	Durable bool
	// Auth is how a new cluster checks passwords; empty: scram-sha-256, on which each connection spends
	// milliseconds of processor time by design.
	Auth string
	// Download fetches the server programs when none are installed and PG_BIN does not name them.
	Download bool
	// Settings are added to the server's command line and win over ours.
	Settings map[string]string
	// Env is added to the server's environment, which is otherwise almost empty.
	Env []string
	// Log receives a line for each slow or surprising step. May be nil.
	Log io.Writer
}

// Postgres is a running server. Stop closes its connections and writes a checkpoint; when that
// takes too long the server is stopped at once and recovers at its next start.
type Postgres struct {
	server
	params  PostgresParams
	bin     postgresBin
	owner   *owner
	dataDir string
	logPath string
	// password of the superuser, who may run programs as the user the server runs as
	password string
}

// StartPostgres starts a server on its folder, creating the cluster first when there is none, and
// returns when it answers queries.
func StartPostgres(ctx context.Context, params PostgresParams) (*Postgres, error) {
	dir, err := filepath.Abs(params.Dir)
	if err != nil {
		return nil, fmt.Errorf("resolve state folder: %w", err)
	}
	params.Dir = dir
	if params.Log == nil {
		params.Log = io.Discard
	}
	p := &Postgres{
		params: params, dataDir: filepath.Join(dir, "postgres"),
		logPath: filepath.Join(dir, "postgres.log"),
	}
	if p.owner, err = serverOwner(); err != nil {
		return nil, err
	}
	major, err := clusterVersion(p.dataDir)
	if err != nil {
		return nil, err
	}
	p.bin, err = findPostgres(ctx, major)
	if errors.Is(err, ErrNoPostgres) && params.Download && os.Getenv("PG_BIN") == "" {
		if from, packed := postgresArchive(); packed {
			p.bin, err = downloadPostgres(ctx, dir, from, params.Log)
		}
	}
	if err != nil {
		return nil, err
	}
	if p.password, err = clusterPassword(dir, major != 0); err != nil {
		return nil, err
	}
	if major == 0 {
		if err := p.initCluster(ctx); err != nil {
			return nil, err
		}
	}
	pidFile := filepath.Join(p.dataDir, "postmaster.pid")
	if err := endLeftover(ctx, pidFile, p.dataDir, params.Log); err != nil {
		return nil, err
	}
	p.server = server{
		name: "PostgreSQL " + p.bin.version, run: p.launch, wanted: params.Port, any: params.AnyPort,
		stop: []endStep{{syscall.SIGINT, 30 * time.Second}, postgresKill()},
		kill: []endStep{postgresKill()},
	}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// URL returns the connection string of one of the server's databases, password included.
func (p *Postgres) URL(database string) string { return p.urlOn(p.bound, database) }

func (p *Postgres) urlOn(port int, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, p.password),
		Host:     address(port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// PID is the postmaster's process id.
func (p *Postgres) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.(*child).process.Pid
}

// Version is the server's version, as in "15.18".
func (p *Postgres) Version() string { return p.bin.version }

// hasEnded explains an end that was not asked for.
func (p *Postgres) hasEnded() error {
	err := explain(errors.New("it has ended by itself"), p.logPath)
	return fmt.Errorf("keep PostgreSQL running: %w", err)
}

// launch starts the server. The backends of a crashed one hold its shared memory for some
// milliseconds longer than the postmaster lives.
func (p *Postgres) launch(ctx context.Context, port int) (process, error) {
	config, err := pgx.ParseConfig(p.urlOn(port, "postgres"))
	if err != nil {
		return nil, fmt.Errorf("prepare the readiness check: %w", err)
	}
	for {
		c, err := startLogged(ctx, childSpec{
			path: p.bin.program("postgres"), args: p.arguments(port), dir: p.dataDir, owner: p.owner,
			env: p.params.Env, orphanSignal: syscall.SIGQUIT,
		}, p.logPath, func(*child) bool { return serves(ctx, config, p.dataDir) }, postgresKill())
		if !errors.Is(err, errStillDying) || wait.For(ctx, 50*time.Millisecond) != nil {
			return c, err
		}
	}
}

// CreateDatabase creates a database on the server, unless it is there, and closes its schema to all
// others: up to PostgreSQL 14 every role may create in it. name must be a plain word.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) error {
	err := onConn(ctx, p.URL("postgres"), func(conn *pgx.Conn) error {
		var exists bool
		const there = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
		err := conn.QueryRow(ctx, there, name).Scan(&exists)
		if err == nil && !exists {
			_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
		}
		return err
	})
	if err == nil {
		err = onConn(ctx, p.URL(name), func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// onConn runs do on a connection of its own.
func onConn(ctx context.Context, url string, do func(*pgx.Conn) error) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return do(conn)
}

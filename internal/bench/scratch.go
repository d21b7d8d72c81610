package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/wait"
)

const stopTimeout = 30 * time.Second

// server is the PostgreSQL on which scratch databases are made.
type server struct {
	url      string
	admin    *pgxpool.Pool
	version  string
	postgres *devstack.Postgres // nil when it was started elsewhere
	dir      *scratchDir
}

// openServer starts a private server, with the settings PostgreSQL ships with, or
// uses the one at databaseURL.
func openServer(ctx context.Context, databaseURL string) (_ *server, err error) {
	s := &server{url: databaseURL}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if databaseURL == "" {
		if s.dir, err = newScratchDir(); err != nil {
			return nil, err
		}
		if s.postgres, err = devstack.StartPostgres(ctx, devstack.PostgresParams{Dir: s.dir.path, Durable: true}); err != nil {
			return nil, err
		}
		s.url = s.postgres.URL("postgres")
	}
	if s.admin, err = pgxpool.New(ctx, s.url); err != nil {
		return nil, fmt.Errorf("connect to the bench's server: %w", err)
	}
	if err = s.admin.QueryRow(ctx, `SHOW server_version`).Scan(&s.version); err != nil {
		return nil, fmt.Errorf("ask the bench's server for its version: %w", err)
	}
	return s, nil
}

func (s *server) close() error {
	var errs []error
	if s.admin != nil {
		s.admin.Close()
	}
	if s.postgres != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		errs = append(errs, s.postgres.Stop(ctx))
	}
	if s.dir != nil {
		errs = append(errs, s.dir.remove())
	}
	return errors.Join(errs...)
}

// Database is one scratch database, migrated and empty.
type Database struct {
	server *server
	name   string
	URL    string
	Pool   *pgxpool.Pool
	// roundTrips are those of the connections that Open has made.
	roundTrips atomic.Int64
}

func (s *server) create(ctx context.Context, options migrate.Options) (_ *Database, err error) {
	d := &Database{server: s, name: "outboxctl_bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	if d.URL, err = withDatabase(s.url, d.name); err != nil {
		return nil, err
	}
	if _, err = s.admin.Exec(ctx, "CREATE DATABASE "+d.name); err != nil {
		return nil, fmt.Errorf("create scratch database: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.drop())
		}
	}()
	if d.Pool, err = d.Open(ctx, "outboxctl bench", 8); err != nil {
		return nil, err
	}
	if _, err = migrate.Up(ctx, d.Pool, options); err != nil {
		return nil, fmt.Errorf("migrate scratch database: %w", err)
	}
	return d, nil
}

// drop removes the database even when the run was cut short.
func (d *Database) drop() error {
	if d.Pool != nil {
		d.Pool.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if _, err := d.server.admin.Exec(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop scratch database %s: %w", d.name, err)
	}
	return nil
}

// Open connects to it under a name.
func (d *Database) Open(ctx context.Context, name string, conns int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(d.URL)
	if err != nil {
		return nil, errors.New("read the bench's connection string")
	}
	config.MaxConns = conns
	config.ConnConfig.RuntimeParams["application_name"] = name
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn, roundTrips: &d.roundTrips}, nil
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// countedConn counts how often an answer was waited for.
type countedConn struct {
	net.Conn
	roundTrips *atomic.Int64
	asked      atomic.Bool
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(p)
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.asked.CompareAndSwap(true, false) {
		c.roundTrips.Add(1)
	}
	return n, err
}

// withDatabase is the connection string of another database on the same server.
func withDatabase(raw, name string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return "", errors.New("the bench needs its connection string as a URL: postgres://user@host/database")
	}
	u.Path = "/" + name
	return u.String(), nil
}

const (
	dirPattern = "outboxctl-bench-*"
	// readyFile means that the folder has been locked: one without it may be about
	// to be.
	readyFile = "ready"
)

// scratchDir is a locked folder for a private server.
type scratchDir struct {
	path string
	lock *devstate.Lock
}

// newScratchDir makes one, and removes those of benches that were killed.
func newScratchDir() (_ *scratchDir, err error) {
	sweepScratchDirs()
	d := &scratchDir{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("create scratch folder: %w", err), d.remove())
		}
	}()
	if d.path, err = os.MkdirTemp("", dirPattern); err != nil {
		return nil, err
	}
	// The server drops its privileges and must be able to enter.
	if err = os.Chmod(d.path, 0o755); err != nil {
		return nil, err
	}
	if d.lock, err = devstate.AcquireLock(d.path); err != nil {
		return nil, err
	}
	return d, os.WriteFile(filepath.Join(d.path, readyFile), nil, 0o600)
}

func (d *scratchDir) remove() error {
	var errs []error
	if d.path != "" {
		errs = append(errs, os.RemoveAll(d.path))
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Release())
	}
	return errors.Join(errs...)
}

func sweepScratchDirs() {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPattern)) // fails only on a malformed pattern
	for _, dir := range old {
		if _, err := os.Stat(filepath.Join(dir, readyFile)); err != nil {
			continue
		}
		if used, err := devstate.InUse(dir); err == nil && !used {
			_ = os.RemoveAll(dir) // what remains is swept next time
		}
	}
}

// Counters are the server's own figures about the scratch database.
type Counters struct {
	wal          int64
	updates      int64
	Transactions int64
	claimIndex   int64 // bytes
	buffers      int64 // pages looked at
	roundTrips   int64
	// database and self are processor times: of the server's processes, and of this one with the fake
	// in it.
	database, self time.Duration
}

const countersSQL = `
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, t.n_tup_upd, d.xact_commit + d.xact_rollback,
       pg_relation_size('outbox_events_seq_claim_idx'), d.blks_hit + d.blks_read
  FROM pg_stat_user_tables AS t, pg_stat_database AS d
 WHERE t.relname = 'outbox_events' AND d.datname = current_database()`

// Counters reads them.
func (d *Database) Counters(ctx context.Context) (c Counters, err error) {
	err = d.Pool.QueryRow(ctx, countersSQL).Scan(&c.wal, &c.updates, &c.Transactions, &c.claimIndex, &c.buffers)
	if err != nil {
		return c, fmt.Errorf("read the server's counters: %w", err)
	}
	if d.server.postgres != nil {
		c.database = familyTime(d.server.postgres.PID())
	}
	c.self, c.roundTrips = CPUTime(), d.roundTrips.Load()
	return c, nil
}

// countersAfter waits until the server has counted at least so many updates: each
// backend reports late, at the latest when its connection ends.
func (d *Database) countersAfter(ctx context.Context, before Counters, updates int64) (Counters, error) {
	deadline := time.Now().Add(5 * time.Second)
	for {
		now, err := d.Counters(ctx)
		if err != nil || now.updates-before.updates >= updates || time.Now().After(deadline) {
			return now, err
		}
		if err := wait.For(ctx, 50*time.Millisecond); err != nil {
			return now, err
		}
	}
}

// countersWithout waits until the connections of that name have ended, and with them reported: in PostgreSQL 14 a moment later.
func (d *Database) countersWithout(ctx context.Context, name string) (Counters, error) {
	for left, tries := 1, 0; left > 0; tries++ {
		err := d.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()`, name).Scan(&left)
		if err == nil && left > 0 && tries == 500 {
			err = fmt.Errorf("%d are still open", left)
		}
		if err == nil && left > 0 {
			err = wait.For(ctx, 10*time.Millisecond)
		}
		if err != nil {
			return Counters{}, fmt.Errorf("wait for the consumer's connections to end: %w", err)
		}
	}
	return d.Counters(ctx)
}

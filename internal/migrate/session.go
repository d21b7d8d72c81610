package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/wait"
)

// lockKey is the advisory lock of migration runs; advisory locks are per
// database, so every database of a cluster can be migrated at the same time.
const lockKey int64 = 0x6f7574626f780001 // "outbox", 1

// pollLock is how often a waiting run asks for the lock. Asking instead of waiting in PostgreSQL
// holds no snapshot, which would stall the very index build the other run is waiting for.
const pollLock = 250 * time.Millisecond

// session is the one connection a run works on. The lock and the work share
// it, so a migration that loses the lock has lost the connection that was working.
type session struct {
	db  *sql.DB
	pid int32
}

// openSession takes one connection out of the pool and keeps it.
func openSession(ctx context.Context, pool *pgxpool.Pool, opts Options) (*session, error) {
	db := stdlib.OpenDBFromPool(pool)
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	s := &session{db: db}
	if err := s.prepare(ctx, opts); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// prepare sets what every statement of a run relies on. A migration may have
// changed a setting and then been interrupted, so it runs before each attempt.
func (s *session) prepare(ctx context.Context, opts Options) error {
	return s.raw(ctx, func(conn *pgx.Conn) error {
		// The migrations that create the table and fill seq ask for them.
		_, err := conn.Exec(ctx, `SELECT set_config('outboxctl.types', $1, false), set_config('outboxctl.pace', $2, false)`,
			opts.FreshTypes, strconv.FormatFloat(max(0, opts.Pace), 'f', -1, 64))
		if err != nil {
			return fmt.Errorf("prepare session: %w", err)
		}
		// client_connection_check_interval (PostgreSQL 14) ends a backend whose client was
		// killed, instead of letting it hold the lock until its statement is done.
		_, err = conn.Exec(ctx, `
SELECT set_config(v.name, v.value, false)
  FROM (VALUES ('lock_timeout', $1), ('statement_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
               ('default_transaction_isolation', 'read committed'),
               ('TimeZone', 'UTC'), ('client_connection_check_interval', '1s')) AS v(name, value)
  JOIN pg_settings p ON p.name = v.name`, fmt.Sprintf("%dms", opts.LockTimeout.Milliseconds()))
		if err != nil {
			return fmt.Errorf("prepare session: %w", err)
		}
		var pid int32
		if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return fmt.Errorf("ask for backend: %w", err)
		}
		if s.pid != 0 && s.pid != pid {
			return fault.Hint(fault.Preconditionf("the migration lock was taken by backend %d but backend %d answers now",
				s.pid, pid), "%s", poolerHint)
		}
		// A pooler hands out a process id of its own making; PostgreSQL its real one.
		if s.pid == 0 && conn.PgConn().PID() != uint32(pid) {
			opts.Progress("a connection pooler is in between: " + poolerHint)
		}
		s.pid = pid
		return nil
	})
}

// home is the schema in which the session creates.
func (s *session) home(ctx context.Context) (h home, err error) {
	err = s.raw(ctx, func(conn *pgx.Conn) error {
		var schema string
		if err := conn.QueryRow(ctx, `SELECT quote_ident(current_schema())`).Scan(&schema); err != nil {
			return fmt.Errorf("look for the schema: %w", err)
		}
		h, err = newHome(schema)
		return err
	})
	return h, err
}

// lock waits for the migration lock, at most opts.Wait.
func (s *session) lock(ctx context.Context, opts Options) (waited time.Duration, err error) {
	start := time.Now()
	told := start.Add(-opts.reportEvery)
	for {
		var got bool
		var holder int32
		err := s.raw(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `
SELECT pg_try_advisory_lock($1::bigint),
       coalesce((SELECT pid FROM pg_locks
                  WHERE locktype = 'advisory' AND granted AND objsubid = 1
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                    AND classid = ($1::bigint >> 32)::oid AND objid = ($1::bigint & 4294967295)::oid
                  LIMIT 1), 0)`, lockKey).Scan(&got, &holder)
		})
		waited = time.Since(start)
		switch {
		case err != nil:
			return waited, fmt.Errorf("take migration lock: %w", err)
		case got:
			return waited, nil
		case waited > opts.Wait:
			other := "another migration"
			if holder != 0 { // it could be seen
				other += fmt.Sprintf(" (backend %d)", holder)
			}
			return waited, fault.Hint(fault.Preconditionf("%s holds the lock, waited %s", other, waited.Round(time.Second)),
				"wait for it to finish and run the command again")
		}
		if time.Since(told) >= opts.reportEvery {
			opts.Progress(fmt.Sprintf("waiting for another migration (backend %d) to finish", holder))
			told = time.Now()
		}
		if err := wait.For(ctx, pollLock); err != nil {
			return waited, err
		}
	}
}

// raw lends the pgx connection underneath.
func (s *session) raw(ctx context.Context, f func(*pgx.Conn) error) error {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	return c.Raw(func(driverConn any) error {
		return f(driverConn.(*stdlib.Conn).Conn())
	})
}

// close gives the lock back and ends the connection instead of returning it to
// the pool, where the settings of prepare would surprise its next user.
func (s *session) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.pid != 0 {
		// Errors mean that the connection is gone, and the lock with it.
		_ = s.raw(ctx, func(conn *pgx.Conn) error {
			if conn.PgConn().IsClosed() {
				return nil
			}
			_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock($1::bigint)`, lockKey)
			_, _ = conn.Exec(ctx, `DISCARD ALL`)
			return conn.Close(ctx)
		})
	}
	_ = s.db.Close()
}

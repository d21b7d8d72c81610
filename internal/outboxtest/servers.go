package outboxtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/devstate"
)

const (
	// redisDatabases is how many tests of one process can use Redis at the same time.
	redisDatabases = 512
	// setUpTimeout bounds what is done once for all tests, stopTimeout what is done after them.
	setUpTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
	dirPattern   = "outboxctl-test-*"
)

// shared is what the tests of one process have in common. It is package state because TestMain and
// the tests meet nowhere else.
var shared servers

type servers struct {
	mu       sync.Mutex
	usable   bool // between Main's start and its end
	dir      string
	lock     *devstate.Lock
	postgres *devstack.Postgres
	admin    *pgxpool.Pool // on the maintenance database
	copying  string        // the clause of CREATE DATABASE that copies files
	redis    *devstack.Redis
	redisDBs chan int
	names    int
	failed   error // a set-up that failed once fails for all tests, at once
}

func (s *servers) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usable = true
}

// stateDir returns a folder that the servers' unprivileged user can enter, and sweeps up after test
// processes that were killed.
func (s *servers) stateDir() (string, error) {
	if !s.usable {
		return "", errors.New(`outboxtest: the package needs func TestMain(m *testing.M) { outboxtest.Main(m) }`)
	}
	if s.dir != "" {
		return s.dir, nil
	}
	old, _ := filepath.Glob(filepath.Join(TempDir(), dirPattern)) // fails only on a malformed pattern
	for _, dir := range old {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err != nil {
			continue // another process is about to lock it
		}
		if used, err := devstate.InUse(dir); err == nil && !used {
			_ = os.RemoveAll(dir)
		}
	}
	dir, err := os.MkdirTemp(TempDir(), dirPattern)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	if s.lock, err = devstate.AcquireLock(dir); err != nil {
		return "", err
	}
	s.dir = dir
	return dir, os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600)
}

// once runs a set-up step under the lock and remembers its failure.
func (s *servers) once(step func(ctx context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), setUpTimeout)
	defer cancel()
	s.failed = step(ctx)
	return s.failed
}

// usePostgres starts the server. It does not hang on a test's context: the server outlives the
// test.
func (s *servers) usePostgres() error {
	return s.once(func(ctx context.Context) error {
		if s.admin != nil {
			return nil
		}
		dir, err := s.stateDir()
		if err != nil {
			return err
		}
		if s.postgres, err = startPostgres(ctx, os.Getenv(runEnv),
			devstack.PostgresParams{Dir: dir}); err != nil {
			return err
		}
		admin, err := pgxpool.New(ctx, s.postgres.URL("postgres"))
		if err != nil {
			return err
		}
		// Copying the template's files is faster than writing them to the log; before PostgreSQL 15 there
		// was no other way.
		err = admin.QueryRow(ctx, `SELECT CASE WHEN current_setting('server_version_num')::int >= 150000 THEN ' STRATEGY file_copy' ELSE '' END`).Scan(&s.copying)
		if err != nil {
			admin.Close()
			return err
		}
		s.admin = admin
		return nil
	})
}

func (s *servers) useRedis() error {
	return s.once(func(ctx context.Context) error {
		if s.redis != nil {
			return nil
		}
		dir, err := s.stateDir()
		if err != nil {
			return err
		}
		s.redis, err = devstack.StartRedis(ctx, devstack.RedisParams{
			Dir:      dir,
			Settings: map[string]string{"databases": strconv.Itoa(redisDatabases)},
		})
		if err != nil {
			return err
		}
		s.redisDBs = make(chan int, redisDatabases)
		for db := range redisDatabases {
			s.redisDBs <- db
		}
		return nil
	})
}

// serverDir makes a folder for a server of one test's own.
func (s *servers) serverDir() (string, error) {
	var dir string
	err := s.once(func(context.Context) error {
		state, err := s.stateDir()
		if err != nil {
			return err
		}
		if dir, err = os.MkdirTemp(state, "own-*"); err != nil {
			return err
		}
		return os.Chmod(dir, 0o755)
	})
	return dir, err
}

func (s *servers) nextName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	return "test_" + strconv.Itoa(s.names)
}

func (s *servers) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usable = false
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()

	var errs []error
	if s.admin != nil {
		s.admin.Close()
	}
	if s.postgres != nil {
		// The data is not needed: skip the checkpoint.
		errs = append(errs, s.postgres.Kill())
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Stop(ctx))
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir), s.lock.Release())
	}
	return errors.Join(errs...)
}

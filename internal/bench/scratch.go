package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/migrate"
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
	return pgxpool.NewWithConfig(ctx, config)
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

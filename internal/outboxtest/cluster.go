package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/migrate"
)

// runEnv names a folder of one run of many test processes, which make test makes and removes. The
// first process that needs PostgreSQL leaves a cluster with the template database there, stopped;
// each server of the run begins as a copy of it. That takes a tenth of the work of initdb and the
// migrations, and the servers share nothing: no roles, sessions or settings.
const runEnv = "OUTBOXTEST_RUN"

// template is the database in every server of the tests that has all migrations.
const template = "outbox_template"

// startPostgres starts a server that has the template. run is the value of OUTBOXTEST_RUN.
func startPostgres(ctx context.Context, run string,
	params devstack.PostgresParams) (*devstack.Postgres, error) {
	if run == "" {
		return withTemplate(ctx, params)
	}
	if err := layCluster(ctx, run, params.Dir); err != nil {
		return nil, fmt.Errorf("copy the cluster in %s=%s: %w", runEnv, run, err)
	}
	return devstack.StartPostgres(ctx, params)
}

// withTemplate makes a cluster, starts it and makes the template in it.
func withTemplate(ctx context.Context, params devstack.PostgresParams) (*devstack.Postgres, error) {
	params.Auth = "md5" // tests make thousands of connections
	server, err := devstack.StartPostgres(ctx, params)
	if err != nil {
		return nil, err
	}
	if err := makeTemplate(ctx, server); err != nil {
		return nil, errors.Join(fmt.Errorf("make the template database: %w", err), server.Kill())
	}
	return server, nil
}

// makeTemplate closes its connections before it returns: a database in use cannot be copied.
func makeTemplate(ctx context.Context, server *devstack.Postgres) error {
	if err := server.CreateDatabase(ctx, template); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, server.URL(template))
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = migrate.Up(ctx, pool, migrate.Options{})
	return err
}

// layCluster puts a stopped cluster with the template into dir: the run's, or the run's first.
func layCluster(ctx context.Context, run, dir string) error {
	lock, err := lockRun(ctx, run)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }() // the end of the process does it as well
	kept := filepath.Join(run, "cluster")
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, copyCluster(ctx, kept, dir))
	}
	server, err := withTemplate(ctx, devstack.PostgresParams{Dir: dir})
	if err != nil {
		return err
	}
	if err := server.Stop(ctx); err != nil {
		return err
	}
	// A process that is killed here leaves no cluster that looks whole.
	half := kept + ".new"
	if err := errors.Join(os.RemoveAll(half), os.Mkdir(half, 0o700)); err != nil {
		return err
	}
	if err := copyCluster(ctx, dir, half); err != nil {
		return err
	}
	return os.Rename(half, kept)
}

// lockRun waits for other processes of the run: what they do takes seconds.
func lockRun(ctx context.Context, run string) (*devstate.Lock, error) {
	for {
		lock, err := devstate.AcquireLock(run)
		if other := new(devstate.LockedError); !errors.As(err, &other) || ctx.Err() != nil {
			return lock, err
		}
	}
}

// copyCluster copies a cluster and its password with their owners and modes, which the server
// checks. cp lets the file system share the blocks where it can.
func copyCluster(ctx context.Context, from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "postgres*"))
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "cp",
		slices.Concat([]string{"-a"}, files, []string{to})...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}

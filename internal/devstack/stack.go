package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/devstate"
)

// Params describes how to start all three servers.
type Params struct {
	// Dir is the state folder.
	Dir string
	// PostgresPort, RedisPort and PubSubPort are taken when they are free; otherwise, and when 0, any
	// free port is.
	PostgresPort, RedisPort, PubSubPort int
	// Durable and Download are PostgresParams' own.
	Durable, Download bool
	// Log receives a line for each slow or surprising step. May be nil.
	Log io.Writer
}

// Stack is the three servers.
type Stack struct {
	Postgres *Postgres
	Redis    *Redis
	PubSub   *PubSub
}

// Start starts all three servers at once. When one of them does not start, none is left running.
func Start(ctx context.Context, params Params) (*Stack, error) {
	s := &Stack{}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		s.Postgres, err = StartPostgres(groupCtx, PostgresParams{
			Dir: params.Dir, Port: params.PostgresPort, AnyPort: true, Durable: params.Durable, Download: params.Download,
			Log: params.Log,
		})
		return err
	})
	group.Go(func() (err error) {
		s.Redis, err = StartRedis(groupCtx, RedisParams{
			Dir: params.Dir, Port: params.RedisPort, AnyPort: true, Log: params.Log,
		})
		return err
	})
	group.Go(func() (err error) {
		s.PubSub, err = StartPubSub(groupCtx, PubSubParams{Port: params.PubSubPort, AnyPort: true})
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Stop ends the servers that run. A cancelled context cuts the patience short; it never leaves a
// process running.
func (s *Stack) Stop(ctx context.Context) error {
	group := errgroup.Group{}
	if s.PubSub != nil {
		group.Go(func() error { return s.PubSub.Stop(ctx) })
	}
	if s.Redis != nil {
		group.Go(func() error { return s.Redis.Stop(ctx) })
	}
	if s.Postgres != nil {
		group.Go(func() error { return s.Postgres.Stop(ctx) })
	}
	return group.Wait()
}

// Watch returns when the context ends, or with an error when a server has ended by itself.
func (s *Stack) Watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.Postgres.Done():
		return s.Postgres.hasEnded()
	case <-s.Redis.Done():
		return errors.New("keep Redis running: redis-server has ended by itself")
	}
}

// StateOf lists what earlier runs left in a state folder that is its servers'; "lock" belongs to
// the process that holds it.
func StateOf(dir string) []string {
	var paths []string
	for _, name := range []string{
		"postgres", "postgres.new", "postgres.log", passwordName, passwordName + ".new",
		"redis", "redis.log", devstate.InfoFile,
	} {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// RemoveState ends what is left running in a state folder and deletes what the servers made there,
// and nothing else: the folder may hold more. The caller holds its lock.
func RemoveState(ctx context.Context, dir string, log io.Writer) error {
	pidFiles := map[string]string{"postgres": "postmaster.pid", "redis": "redis.pid"}
	for server, pidFile := range pidFiles {
		work := filepath.Join(dir, server)
		if err := endLeftover(ctx, filepath.Join(work, pidFile), work, log); err != nil {
			return err
		}
	}
	for _, path := range StateOf(dir) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove old state: %w", err)
		}
	}
	return nil
}

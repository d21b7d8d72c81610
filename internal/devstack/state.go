package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/outboxctl/outboxctl/internal/devstate"
)

// stateNames are the entries of a state folder that belong to its servers; "lock" belongs to the
// process that holds it.
func stateNames() []string {
	return []string{"postgres", "postgres.new", "postgres.log", passwordName, passwordName + ".new",
		"redis", "redis.log", devstate.InfoFile}
}

// StateOf lists what earlier runs left in a state folder.
func StateOf(dir string) []string {
	var paths []string
	for _, name := range stateNames() {
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
	for server, pidFile := range map[string]string{"postgres": "postmaster.pid",
		"redis": "redis.pid"} {
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

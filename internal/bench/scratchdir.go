package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/outboxctl/outboxctl/internal/devstate"
)

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

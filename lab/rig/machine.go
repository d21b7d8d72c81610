package rig

import (
	"errors"
	"os"
	"path/filepath"
)

// StateDir makes a folder, a temporary one when it has no name, that the servers' unprivileged user
// can enter.
func StateDir(dir string) (string, error) {
	var err error
	if dir == "" {
		if dir, err = os.MkdirTemp("", "outboxctl-*"); err != nil {
			return "", err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	return dir, errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)) //nolint:gosec // see above
}

// FakeTime is where libfaketime is, which makes a server's clock wrong, or nothing.
func FakeTime() string {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1") // fails only on a malformed pattern
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

package devstack

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
)

// workingDir returns a process's working folder, or "" when the process has ended or belongs to
// another user.
func workingDir(pid int) (string, error) {
	dir, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	return dir, err
}

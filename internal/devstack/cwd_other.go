//go:build unix && !linux

package devstack

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

// workingDir returns a process's working folder, or "" when the process has ended or belongs to
// another user.
func workingDir(pid int) (string, error) {
	out, err := exec.Command("lsof", "-a", "-p", strconv.Itoa(pid), "-d", "cwd", "-Fn").Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if dir, ok := strings.CutPrefix(line, "n"); ok {
			return strings.TrimSpace(dir), nil
		}
	}
	return "", nil
}

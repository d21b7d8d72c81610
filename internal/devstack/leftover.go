package devstack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// leftoverPatience is how long a leftover may take to react to each signal.
const leftoverPatience = 5 * time.Second

// endLeftover ends a server that an earlier run left working in dir, going by the lock file it
// wrote. Both servers go to their folder when they start, and a process that works elsewhere is not
// touched: ids are reused.
//
// When the id belongs to another process the file is removed, because PostgreSQL refuses to start
// over a lock file whose id is alive, even if it is another process by now.
func endLeftover(ctx context.Context, pidFile, dir string, log io.Writer) error {
	pid, err := readPID(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", pidFile, err)
	}
	ours, err := worksIn(pid, dir)
	if err != nil {
		return fmt.Errorf("look at process %d, which %s names: %w", pid, pidFile, err)
	}
	if !ours {
		if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale lock file: %w", err)
		}
		return nil
	}
	_, _ = fmt.Fprintf(log, "ending process %d, left over in %s from an earlier run\n", pid, dir)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end leftover process %d: %w", pid, err)
		}
		if gone(ctx, pid, dir) {
			return nil
		}
	}
	return fmt.Errorf("end leftover process %d: it does not react", pid)
}

// readPID reads the first line of a lock file.
func readPID(path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	line, err := bufio.NewReader(file).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line))
}

// gone waits for a process that is not our child, so there is nothing to wait on. It asks whether
// the process still works in the folder rather than whether it exists: a container without an init
// keeps dead processes in its table for ever.
func gone(ctx context.Context, pid int, dir string) bool {
	ctx, cancel := context.WithTimeout(ctx, leftoverPatience)
	defer cancel()
	for {
		if ours, err := worksIn(pid, dir); err == nil && !ours {
			return true
		}
		if wait.For(ctx, readyPoll) != nil {
			return false
		}
	}
}

func worksIn(pid int, dir string) (bool, error) {
	cwd, err := workingDir(pid)
	if err != nil || cwd == "" {
		return false, err
	}
	if cwd == dir {
		return true, nil
	}
	// A symbolic link on the way gives one folder two names.
	first, err := os.Stat(cwd)
	if err != nil {
		return false, nil
	}
	second, err := os.Stat(dir)
	return err == nil && os.SameFile(first, second), nil
}

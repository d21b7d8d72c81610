package devstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/fileowner"
)

const (
	lockFile = "lock"
	// A look at the lock holds it for an instant; a start that meets one tries again instead of giving
	// up.
	lockAttempts = 10
	lockPause    = 20 * time.Millisecond
)

// LockedError means that another process works on the state folder.
type LockedError struct {
	Dir string
	PID int // 0 when unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("use state folder %s: another process is using it", e.Dir)
	}
	return fmt.Sprintf("use state folder %s: process %d is using it", e.Dir, e.PID)
}

// Hint names the way out.
func (e *LockedError) Hint() string {
	return "stop that process, or choose another folder with --state-dir"
}

// Lock is a state folder held by this process. The kernel releases it when the process ends,
// however it ends.
type Lock struct {
	file *os.File
}

// AcquireLock takes a state folder, creating it when missing, or returns a *LockedError.
func AcquireLock(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create state folder: %w", fault.File(dir, err))
	}
	if err := fileowner.CheckFolder(dir); err != nil {
		return nil, fmt.Errorf("use state folder %s: %w", dir, &ForeignError{err})
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state folder: %w", fault.File(dir, err))
	}
	for attempt := 1; ; attempt++ {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || attempt == lockAttempts {
			break
		}
		time.Sleep(lockPause) //nolint:forbidden // bounded by lockAttempts, well under a second
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		content, _ := os.ReadFile(file.Name())
		pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
		_ = file.Close()
		return nil, &LockedError{Dir: dir, PID: pid}
	}
	if err == nil {
		err = writePID(file)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock state folder: %w", err)
	}
	return &Lock{file: file}, nil
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Release gives the folder back. The file stays: removing it would let two processes lock two files
// of the same name.
//
// It is unlocked before it is closed: a child that is just being started has a copy of the
// descriptor, which would keep the lock until the child runs its own program.
func (l *Lock) Release() error {
	if err := errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN),
		l.file.Close()); err != nil {
		return fmt.Errorf("unlock state folder: %w", err)
	}
	return nil
}

// InUse reports whether a process holds the folder's lock.
func InUse(dir string) (bool, error) {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

package cmd_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// terminal opens a pseudo-terminal and returns the side that a program sees.
func terminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close() })
	var locked, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &locked, syscall.TIOCGPTN: &number} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(value)))
		require.Zero(t, errno)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = side.Close() })
	go func() { _, _ = io.Copy(io.Discard, master) }() // what is written there must not wait; closing ends it
	return side
}

// A payload that was being edited stays on no disk when the process is ended, by whichever signal can be caught.
func TestAnEditedPayloadIsGoneAfterASignal(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	r.die(1, "no", `{"data": {"orderId": 7}}`)
	r.editor(`while test -e "$2"; do sleep 0.05; done`)
	for name, signal := range map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temporary := t.TempDir()
			files := func(pattern string) []string {
				found, err := filepath.Glob(temporary + pattern)
				require.NoError(t, err)
				return found
			}
			edit := exec.Command("outboxctl", "dlq", "edit", r.id())
			edit.Env = slices.Concat(r.env, []string{"TMPDIR=" + temporary})
			side := terminal(t)
			edit.Stdin, edit.Stderr = side, side
			require.NoError(t, edit.Start())
			require.Eventually(t, func() bool { return len(files("/*/payload.json")) == 1 }, time.Minute, 5*time.Millisecond)
			require.NoError(t, edit.Process.Signal(signal))
			require.Error(t, edit.Wait())
			require.Empty(t, files("/*"))
		})
	}
}

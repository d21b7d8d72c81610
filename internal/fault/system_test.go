package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
)

func TestTheSystemSpeaksOurWords(t *testing.T) {
	t.Parallel()
	for want, cause := range map[string]error{
		"a.yaml does not exist":                          fs.ErrNotExist,
		"a.yaml may not be used by this user":            fs.ErrPermission,
		"a.yaml is a folder":                             syscall.EISDIR,
		"a.yaml lies below a file, not below a folder":   syscall.ENOTDIR,
		"the name a.yaml… is too long":                   syscall.ENAMETOOLONG,
		"read catalogue: openat a.yaml: quota exhausted": errors.New("quota exhausted"),
	} {
		err := fault.File("a.yaml", fmt.Errorf("read catalogue: %w", &fs.PathError{Op: "openat", Path: "a.yaml", Err: cause}))
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, cause)
	}
	for want, cause := range map[string]error{
		":80 is in use by another process":             syscall.EADDRINUSE,
		":80 is not an address of this machine":        syscall.EADDRNOTAVAIL,
		"this user may not use the port of :80":        syscall.EACCES,
		"no server answers there (connection refused)": syscall.ECONNREFUSED,
		"no answer in time":                            context.DeadlineExceeded,
		"listen tcp: quota exhausted":                  errors.New("quota exhausted"),
	} {
		err := fault.Address(":80", &net.OpError{Op: "listen", Net: "tcp", Err: cause})
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, cause)
	}
	require.EqualError(t, fault.Address("h:1", &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}), "the host's name is not known")
}

package fault

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"syscall"
)

// File explains in our words why the file or folder of this name could not be used. The system's
// name the call that failed.
func File(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Reword(err, "%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return Reword(err, "%s may not be used by this user", name)
	case errors.Is(err, syscall.EISDIR):
		return Reword(err, "%s is a folder", name)
	case errors.Is(err, syscall.ENOTDIR):
		return Reword(err, "%s lies below a file, not below a folder", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return Reword(err, "the name %.40s… is too long", name)
	default:
		return err
	}
}

// Address explains in our words why nothing can be served or reached at an address.
func Address(addr string, err error) error {
	var unknown *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return Reword(err, "%s is in use by another process", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return Reword(err, "%s is not an address of this machine", addr)
	case errors.Is(err, syscall.EACCES):
		return Reword(err, "this user may not use the port of %s", addr)
	case errors.Is(err, syscall.ECONNREFUSED):
		return Reword(err, "no server answers there (connection refused)")
	case errors.As(err, &unknown):
		return Reword(err, "the host's name is not known")
	case errors.Is(err, context.DeadlineExceeded):
		return Reword(err, "no answer in time")
	default:
		return err
	}
}

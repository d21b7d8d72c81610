package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// unprivilegedUsers are tried in this order when we run as root. PostgreSQL refuses to run as root,
// and a Redis that does would let every user of the machine write files as root through CONFIG SET
// dir.
func unprivilegedUsers() []string { return []string{"postgres", "nobody"} }

// owner is the unprivileged user the servers run as. A nil owner means ourselves.
type owner struct {
	name     string
	uid, gid uint32
}

// serverOwner returns nil unless we are root.
func serverOwner() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range unprivilegedUsers() {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read user %s: %w", name, err)
		}
		return &owner{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("find an unprivileged user to run the servers as: neither postgres nor nobody exists")
}

func (o *owner) credential() *syscall.Credential {
	if o == nil {
		return nil
	}
	return &syscall.Credential{Uid: o.uid, Gid: o.gid}
}

// makeDir creates a folder of the owner's below dir and returns its path. dir itself stays ours:
// chowning a folder the caller chose could give away /tmp.
func (o *owner) makeDir(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create state folder: %w", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("create server folder: %w", err)
	}
	if o == nil {
		return path, nil
	}
	if err := o.canReach(dir); err != nil {
		return "", err
	}
	if err := os.Chown(path, int(o.uid), int(o.gid)); err != nil {
		return "", fmt.Errorf("give server folder to %s: %w", o.name, err)
	}
	return path, nil
}

// writeSecret writes a file that the owner alone can read.
func (o *owner) writeSecret(path, content string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write secret: %w", err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write secret: %w", err)
	}
	if o != nil {
		if err := os.Chown(path, int(o.uid), int(o.gid)); err != nil {
			return fmt.Errorf("give secret to %s: %w", o.name, err)
		}
	}
	return nil
}

// canReach checks every folder from dir up to the root. Without it the server's own message would
// be a bare "permission denied" that names the wrong folder.
func (o *owner) canReach(dir string) error {
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("check state folder: %w", err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && !o.canEnter(info.Mode().Perm(), stat.Uid, stat.Gid) {
			return &UnreachableError{Dir: dir, User: o.name}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

func (o *owner) canEnter(mode fs.FileMode, uid, gid uint32) bool {
	switch {
	case uid == o.uid:
		return mode&0o100 != 0
	case gid == o.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// UnreachableError reports which folder keeps the servers' user out.
type UnreachableError struct {
	Dir  string
	User string
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("use state folder: the servers run as user %s, who may not enter %s", e.User, e.Dir)
}

// Hint names the way out.
func (e *UnreachableError) Hint() string {
	return "choose a folder outside it with --state-dir, or run as another user than root"
}

//go:build unix && !linux

package devstack

import "syscall"

// childAttr cannot ask for a parent-death signal here: the next start on the same folder ends what
// was left running.
func childAttr(spec childSpec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid:    true,
		Credential: spec.owner.credential(),
	}
}

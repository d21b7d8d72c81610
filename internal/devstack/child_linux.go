package devstack

import "syscall"

func childAttr(spec childSpec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setpgid:    true,
		Pdeathsig:  spec.orphanSignal,
		Credential: spec.owner.credential(),
	}
}

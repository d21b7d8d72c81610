//go:build !linux

package torture

import "syscall"

// dieWithParent needs Linux; elsewhere a killed harness leaves its processes behind.
func dieWithParent(*syscall.SysProcAttr) {}

// processStopped needs Linux; elsewhere the fault that waits for it does not count.
func processStopped(int) bool { return false }

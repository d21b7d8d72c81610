//go:build !linux

package rig

import "syscall"

// DieWithParent needs Linux; elsewhere a killed harness leaves its processes behind.
func DieWithParent(*syscall.SysProcAttr) {}

// StandsStill needs Linux; elsewhere the fault that waits for it does not count.
func StandsStill(int) bool { return false }

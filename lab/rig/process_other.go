//go:build !linux

package rig

import "syscall"

// dieWithParent needs Linux; elsewhere a killed harness leaves its processes behind.
func dieWithParent(*syscall.SysProcAttr) {}

// standsStill needs Linux; elsewhere the fault that waits for it does not count.
func standsStill(int) bool { return false }

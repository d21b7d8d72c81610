package rig

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// DieWithParent ends the process with the harness.
func DieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// StandsStill says whether a signal has stopped the process. It reads the state letter behind the command's name, which may itself hold brackets and blanks.
func StandsStill(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(after, []byte(" T"))
}

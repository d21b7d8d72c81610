package rig

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// dieWithParent ends the process with the harness.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// standsStill reads the state letter behind the command's name, which may itself hold brackets and
// blanks.
func standsStill(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(after, []byte(" T"))
}

// Command generate writes what is derived from the command tree and kept in git into the folder it
// is given, or with -man the man pages of a release.
package main

import (
	"fmt"
	"os"

	"github.com/outboxctl/outboxctl/cmd"
)

func main() {
	args, write := os.Args[1:], cmd.WriteReference
	if len(args) > 0 && args[0] == "-man" {
		args, write = args[1:], cmd.WriteManPages
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: generate [-man] DIR")
		os.Exit(2)
	}
	if err := write(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// Command generate writes the files that are derived from the command tree into the folder it is
// given.
package main

import (
	"fmt"
	"os"

	"github.com/outboxctl/outboxctl/cmd"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate DIR")
		os.Exit(2)
	}
	if err := cmd.WriteReference(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

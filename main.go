// Command outboxctl moves committed events from a PostgreSQL outbox table to where they belong
// and gives operators the commands to see and fix what is stuck.
package main

import (
	"os"

	"github.com/outboxctl/outboxctl/cmd"
	"github.com/outboxctl/outboxctl/internal/cli"
)

func main() {
	os.Exit(cmd.Main(os.Args[1:], cli.OSStreams(), os.Environ()))
}

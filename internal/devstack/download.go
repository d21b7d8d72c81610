package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloadName is the subfolder of the state folder that holds downloaded server programs.
const downloadName = "postgres-bin"

// downloadPostgres fetches PostgreSQL's server programs for this system into dir, unless an earlier run did. It uses the library for
// the archive only: the server itself is started as every other one is, which the library cannot do as root. repository is where the
// archives are; empty means the library's own choice.
func downloadPostgres(ctx context.Context, dir, repository string, log io.Writer) (postgresBin, error) {
	target := filepath.Join(dir, downloadName)
	if bin, ok := inspectPostgres(ctx, filepath.Join(target, "bin")); ok {
		return bin, nil
	}
	work, err := os.MkdirTemp("", "outboxctl-download-")
	if err != nil {
		return postgresBin{}, fmt.Errorf("download PostgreSQL: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	port, err := freePort()
	if err != nil {
		return postgresBin{}, err
	}
	config := embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.V17).
		BinariesPath(target).CachePath(filepath.Join(work, "cache")).RuntimePath(filepath.Join(work, "run")).
		Port(uint32(port)).Logger(io.Discard).
		// There is no way to ask for the programs alone. A locale that does not exist ends the start after they are unpacked.
		Locale("none.such")
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	_, _ = fmt.Fprintf(log, "PostgreSQL is not installed: downloading version %s to %s\n", embeddedpostgres.V17, target)
	done := make(chan error, 1)
	go func() { done <- embeddedpostgres.NewDatabase(config).Start() }()
	select {
	case err = <-done:
	case <-ctx.Done(): // the library takes no context; the process is about to end
		return postgresBin{}, fmt.Errorf("download PostgreSQL: %w", ctx.Err())
	}
	if bin, ok := inspectPostgres(ctx, filepath.Join(target, "bin")); ok {
		return bin, nil
	}
	return postgresBin{}, fmt.Errorf("download PostgreSQL: %w (%w)", err, ErrNoPostgres)
}

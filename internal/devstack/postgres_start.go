package devstack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	superuser = "postgres"
	// readyPoll is how often a starting server is asked whether it answers.
	readyPoll = 20 * time.Millisecond
	// logTail is how much of a server's log goes into an error message.
	logTail = 2 << 10
)

var (
	errPortTaken  = errors.New("the port is taken")
	errStillDying = errors.New("the server before it is still going down")
	errExited     = errors.New("the server ended while starting")
)

// clusterVersion reads which major version made the cluster; 0 means there is none yet.
func clusterVersion(dataDir string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the cluster's version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("read the cluster's version: %w", err)
	}
	return major, nil
}

// passwordName is the file in the state folder with the password of the cluster's superuser.
const passwordName = "postgres.password"

// ErrNoPassword means that the cluster was made by an early version, which let every user of the
// machine in.
var ErrNoPassword = errors.New("use state folder: its database has no password")

// clusterPassword reads the password of the cluster, or chooses one for a cluster to be made.
func clusterPassword(dir string, exists bool) (string, error) {
	path := filepath.Join(dir, passwordName)
	content, err := os.ReadFile(path)
	switch {
	case err == nil:
		return strings.TrimSpace(string(content)), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the database's password: %w", err)
	case exists:
		return "", ErrNoPassword
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create state folder: %w", err)
	}
	password := rand.Text()
	return password, (*owner)(nil).writeSecret(path, password+"\n")
}

// initCluster works in a folder aside and renames it at the end, so that an interrupted initdb
// never passes for a cluster.
func (p *Postgres) initCluster(ctx context.Context) error {
	const aside = "postgres.new"
	if err := os.RemoveAll(filepath.Join(p.params.Dir, aside)); err != nil {
		return fmt.Errorf("remove an unfinished cluster: %w", err)
	}
	dir, err := p.owner.makeDir(p.params.Dir, aside)
	if err != nil {
		return err
	}
	log, err := openLog(p.logPath)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()

	passwordFile := filepath.Join(p.params.Dir, passwordName+".new")
	if err := p.owner.writeSecret(passwordFile, p.password+"\n"); err != nil {
		return err
	}
	defer func() { _ = os.Remove(passwordFile) }()

	// The port is open to every user of this machine, and the superuser may run programs: scram, not
	// trust.
	args := []string{
		"--pgdata=" + dir, "--username=" + superuser, "--auth=" + cmp.Or(p.params.Auth, "scram-sha-256"), "--pwfile=" + passwordFile, "--encoding=UTF8", "--locale=C",
	}
	if !p.params.Durable {
		args = append(args, "--no-sync")
	}
	_, _ = fmt.Fprintf(p.params.Log, "creating a PostgreSQL %s cluster in %s\n", p.bin.version, p.dataDir)
	c, err := startChild(childSpec{
		path:         p.bin.program("initdb"),
		args:         args,
		dir:          dir,
		owner:        p.owner,
		output:       log,
		orphanSignal: syscall.SIGKILL,
	})
	if err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = c.end(ctx)
		return fmt.Errorf("create a PostgreSQL cluster: %w", ctx.Err())
	}
	if c.err != nil {
		return fmt.Errorf("create a PostgreSQL cluster: %w", explain(c.err, p.logPath))
	}
	if err := os.Rename(dir, p.dataDir); err != nil {
		return fmt.Errorf("create a PostgreSQL cluster: %w", err)
	}
	return nil
}

// arguments returns the server's command line. TCP on the loopback interface only: a socket file's
// path is limited to about a hundred bytes, which temporary folders exceed.
func (p *Postgres) arguments(port int) []string {
	settings := map[string]string{
		"listen_addresses":        loopback,
		"unix_socket_directories": "",
		"port":                    strconv.Itoa(port),
		"max_connections":         "200",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"lc_messages":             "C",
		"logging_collector":       "off",
		"log_destination":         "stderr",
	}
	if !p.params.Durable {
		// synchronous_commit stays on: without it a crash of the server alone would lose commits that
		// were acknowledged, and tests that crash it could not tell that from a bug.
		maps.Copy(settings, map[string]string{
			"fsync":            "off",
			"full_page_writes": "off",
			"wal_level":        "minimal",
			"max_wal_senders":  "0",
		})
	}
	maps.Copy(settings, p.params.Settings)

	args := []string{"-D", p.dataDir}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// serves reports whether our server answers a query.
func serves(ctx context.Context, config *pgx.ConnConfig, dataDir string) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	var dir string
	return conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir) == nil && dir == dataDir
}

// explain adds what a server said last. PostgreSQL's messages are in English because lc_messages is
// C.
func explain(err error, logPath string) error {
	content, readErr := os.ReadFile(logPath)
	if readErr != nil {
		return err
	}
	switch {
	case bytes.Contains(content, []byte("Address already in use")):
		return errPortTaken
	case bytes.Contains(content, []byte("pre-existing shared memory block")):
		return errStillDying
	}
	if len(content) > logTail {
		content = content[len(content)-logTail:]
	}
	return fmt.Errorf("%w; its log says: %s", err, bytes.TrimSpace(content))
}

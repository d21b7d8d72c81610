package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrNoPostgres means that neither the usual places nor PG_BIN hold PostgreSQL's server programs.
var ErrNoPostgres = errors.New("find PostgreSQL: no postgres and initdb programs on this machine")

// postgresGlobs are where packages put the server programs, which most of them keep out of PATH.
func postgresGlobs() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // PGDG on Red Hat and kin
		"/usr/libexec/postgresql*",          // Alpine
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/local/pgsql/bin",
	}
}

// postgresBin is one installation.
type postgresBin struct {
	dir     string
	version string // as in "15.18"
	major   int
}

var postgresVersion = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// findPostgres returns an installation of the wanted major version, or the newest when wanted is 0.
// PG_BIN decides alone when it is set, so that a machine with several versions can be told which
// one to use.
func findPostgres(ctx context.Context, wanted int) (postgresBin, error) {
	var found []postgresBin
	for _, dir := range postgresDirs(ctx) {
		if bin, ok := inspectPostgres(ctx, dir); ok && (wanted == 0 || bin.major == wanted) {
			found = append(found, bin)
		}
	}
	if len(found) == 0 {
		if wanted != 0 {
			return postgresBin{}, fmt.Errorf("find PostgreSQL %d, which made the data in the state folder: %w", wanted, ErrNoPostgres)
		}
		return postgresBin{}, ErrNoPostgres
	}
	return slices.MaxFunc(found, func(a, b postgresBin) int {
		return cmp.Compare(a.major, b.major)
	}), nil
}

func postgresDirs(ctx context.Context) []string {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		return []string{dir}
	}
	var dirs []string
	for _, program := range []string{"postgres", "initdb"} {
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		// A link in PATH points into the folder that also holds initdb.
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range postgresGlobs() {
		matches, _ := filepath.Glob(pattern) // fails only on a malformed pattern
		dirs = append(dirs, matches...)
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func inspectPostgres(ctx context.Context, dir string) (postgresBin, bool) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return postgresBin{}, false
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return postgresBin{}, false
	}
	match := postgresVersion.FindSubmatch(out)
	if match == nil {
		return postgresBin{}, false
	}
	major, err := strconv.Atoi(string(match[2]))
	if err != nil {
		return postgresBin{}, false
	}
	return postgresBin{dir: dir, version: string(match[1]), major: major}, true
}

// PostgresVersion is the version of the server that StartPostgres would run on a new folder.
func PostgresVersion(ctx context.Context) (string, error) {
	bin, err := findPostgres(ctx, 0)
	return bin.version, err
}

func (b postgresBin) program(name string) string { return filepath.Join(b.dir, name) }

// InstallHint is the line that installs the missing server programs.
func InstallHint() string {
	if runtime.GOOS == "darwin" {
		return "brew install postgresql@17 redis"
	}
	return "apt-get install postgresql redis-server (or your system's packages), or set PG_BIN to the folder of postgres and initdb"
}

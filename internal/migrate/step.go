package migrate

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// Step is one migration file.
type Step struct {
	Version int64  `json:"version"`
	Name    string `json:"name"` // of its file
}

func (s Step) String() string { return s.Name }

// steps lists the files in order of version.
func steps(fsys fs.FS) ([]Step, error) {
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	out := make([]Step, 0, len(names))
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || version < 1 {
			return nil, fmt.Errorf("migration %s: name does not start with its number", name)
		}
		out = append(out, Step{Version: version, Name: path.Base(name)})
	}
	slices.SortFunc(out, func(a, b Step) int { return int(a.Version - b.Version) })
	return out, nil
}

// home is the schema that a run creates everything in, quoted.
type home string

// schemaMark stands for the schema in a migration. A function of ours finds nothing by its search_path, see 00007.
const schemaMark = "@schema@"

// newHome refuses a name that would end a text in which it stands: every function's text is quoted by dollar signs.
func newHome(schema string) (home, error) {
	if strings.Contains(schema, "$") {
		return "", fault.Hint(fault.Preconditionf("schema %s has a dollar sign in its name", schema), "use a schema without one")
	}
	return home(schema), nil
}

// files are migrations with the schema in place.
func (h home) files(fsys fs.FS) fs.FS { return filled{fsys, h} }

type filled struct {
	fs.FS
	home home
}

func (f filled) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil || path.Ext(name) != ".sql" {
		return file, err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	return filledFile{strings.NewReader(strings.ReplaceAll(string(text), schemaMark, string(f.home))), info}, err
}

type filledFile struct {
	*strings.Reader
	info fs.FileInfo
}

func (f filledFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f filledFile) Close() error               { return nil }

// statements are the SQL of a migration without what goose wants to be told. alone: it has to run outside of a transaction.
func statements(fsys fs.FS, s Step) (sql string, alone bool, err error) {
	raw, err := fs.ReadFile(fsys, s.Name)
	if err != nil {
		return "", false, fmt.Errorf("read migration %s: %w", s.Name, err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "-- +goose ") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String()) + "\n", strings.Contains(string(raw), "-- +goose NO TRANSACTION\n"), nil
}

// merge joins what the binary knows with what the database recorded, by version.
func merge(known []Step, applied map[int64]time.Time) []StepStatus {
	list := make([]StepStatus, 0, len(known))
	seen := map[int64]bool{}
	for _, s := range known {
		status := StepStatus{Step: s, State: StepPending}
		if at, ok := applied[s.Version]; ok {
			at = at.UTC()
			status.State, status.AppliedAt = StepApplied, &at
		}
		list = append(list, status)
		seen[s.Version] = true
	}
	for version, at := range applied {
		if !seen[version] {
			at = at.UTC()
			list = append(list, StepStatus{Step{Version: version, Name: "unknown"}, StepUnknown, &at})
		}
	}
	slices.SortFunc(list, func(a, b StepStatus) int { return int(a.Version - b.Version) })
	return list
}

// choose picks the steps a run executes, in order. A database that knows more
// than the binary is refused: the binary cannot tell what its steps would meet.
func choose(list []StepStatus, opts Options) ([]Step, error) {
	v := versions(list)
	var unknown []int64
	for _, s := range list {
		if s.State == StepUnknown {
			unknown = append(unknown, s.Version)
		}
	}
	if len(unknown) > 0 {
		return nil, fault.Hint(fault.Preconditionf("database schema version %d is not known to this binary, which ends at %d (unknown: %v)",
			v.Database, v.Binary, unknown),
			"use the outboxctl version that migrated this database, or a newer one")
	}
	if opts.To > 0 && !slices.ContainsFunc(list, func(s StepStatus) bool { return s.Version == opts.To }) {
		return nil, fault.Hint(fault.NotFoundf("no migration has version %d", opts.To), "outboxctl migrate status lists the versions")
	}
	var todo []Step
	for _, s := range list {
		if s.State == StepPending && (opts.To == 0 || s.Version <= opts.To) {
			todo = append(todo, s.Step)
		}
	}
	return todo, nil
}

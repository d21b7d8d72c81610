package migrate

import (
	"fmt"
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

// section cuts the Up or the Down part out of a migration file.
func section(fsys fs.FS, s Step, up bool) (string, error) {
	raw, err := fs.ReadFile(fsys, s.Name)
	if err != nil {
		return "", fmt.Errorf("read migration %s: %w", s.Name, err)
	}
	_, rest, _ := strings.Cut(string(raw), "-- +goose Up\n")
	upPart, downPart, _ := strings.Cut(rest, "-- +goose Down\n")
	part := downPart
	if up {
		part = upPart
	}
	var b strings.Builder
	for line := range strings.Lines(part) {
		if !strings.HasPrefix(line, "-- +goose ") {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String()) + "\n", nil
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
func choose(list []StepStatus, opts Options, down bool) ([]Step, error) {
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
		switch {
		case !down && s.State == StepPending && (opts.To == 0 || s.Version <= opts.To):
			todo = append(todo, s.Step)
		case down && s.State != StepPending && (opts.To <= 0 || s.Version > opts.To):
			todo = append(todo, s.Step)
		}
	}
	if down {
		slices.Reverse(todo)
		if opts.To == 0 {
			todo = todo[:min(opts.Steps, len(todo))]
		}
	}
	return todo, nil
}

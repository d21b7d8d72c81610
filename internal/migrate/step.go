package migrate

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Step is one migration file.
type Step struct {
	Version int64
	Name    string // file name
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

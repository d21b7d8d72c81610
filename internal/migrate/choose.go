package migrate

import (
	"slices"
	"time"
)

// merge joins what the binary knows with what the database recorded, by version.
func merge(known []Step, applied map[int64]time.Time) []StepStatus {
	list := make([]StepStatus, 0, len(known))
	seen := map[int64]bool{}
	for _, s := range known {
		at, ok := applied[s.Version]
		list = append(list, StepStatus{Step: s, Applied: ok, AppliedAt: at})
		seen[s.Version] = true
	}
	for version, at := range applied {
		if !seen[version] {
			list = append(list, StepStatus{Step: Step{Version: version, Name: "unknown"}, Applied: true,
				AppliedAt: at, Unknown: true})
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
		if s.Unknown {
			unknown = append(unknown, s.Version)
		}
	}
	if len(unknown) > 0 {
		return nil, &NewerError{Database: v.Database, Binary: v.Binary, Unknown: unknown}
	}
	if opts.To > 0 && !slices.ContainsFunc(list, func(s StepStatus) bool { return s.Version == opts.To }) {
		return nil, &NoVersionError{opts.To}
	}
	var todo []Step
	for _, s := range list {
		switch {
		case !down && !s.Applied && (opts.To == 0 || s.Version <= opts.To):
			todo = append(todo, s.Step)
		case down && s.Applied && (opts.To <= 0 || s.Version > opts.To):
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

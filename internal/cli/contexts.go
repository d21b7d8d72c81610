package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// AllContexts is the name that stands for every context of the configuration file, unless one is
// named so.
const AllContexts = "all"

// wanted is the name of the context that applies, and what says so.
func (f *configFile) wanted(src ConfigSource) (name, origin string) {
	name, origin = f.current, "file "+f.path
	if env := src.env["OUTBOXCTL_CONTEXT"]; env != "" {
		name, origin = env, "env OUTBOXCTL_CONTEXT"
	}
	if text, given := src.Flag(FlagContext); given {
		name, origin = text, "flag --"+FlagContext
	}
	return name, origin
}

// list reads a name that stands for several contexts: a,b or all. Nil: it stands for one.
func (f *configFile) list(name string) (names []string) {
	known := func(c Context) bool { return c.Name == name }
	if slices.ContainsFunc(f.contexts, known) {
		return nil
	}
	if name == AllContexts {
		for _, c := range f.contexts {
			names = append(names, c.Name)
		}
		return names
	}
	if !strings.Contains(name, ",") {
		return nil
	}
	for part := range strings.SplitSeq(name, ",") {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(names, part) {
			names = append(names, part)
		}
	}
	return names
}

// Several lists the contexts that are chosen where --context a,b or --context all chooses several,
// even if the file has only one. Nil: at most one is chosen, and the command works as without
// contexts.
func (a *App) Several() []string {
	if a.outside {
		return nil
	}
	src := ConfigSource{Flag: a.lookup, env: a.env, file: a.file}
	f, _ := src.configFile() // what is wrong with it is told by the configuration of each context
	name, _ := f.wanted(src)
	return f.list(name)
}

// InContext returns the App that the same command line would have with this context alone.
func (a *App) InContext(name string) *App {
	sub := a.Under(nil)
	sub.dryRun, sub.shared, sub.file = a.dryRun, a.shared, a.file
	sub.lookup = func(flag string) (string, bool) {
		if flag == FlagContext {
			return name, true
		}
		return a.lookup(flag)
	}
	return sub
}

// Outside returns the App that the same command line would have without any context: for what a
// process has once, however many contexts it works on.
func (a *App) Outside() *App {
	sub := a.Under(nil)
	sub.outside, sub.file = true, a.file
	return sub
}

// ContextsAtOnce bounds how many contexts a command that only looks asks side by side.
const ContextsAtOnce = 8

// InContexts runs f in each context, so many side by side, and returns what it says of each. What f
// opens is closed when it returns.
func InContexts[T any](ctx context.Context, a *App, names []string, atOnce int,
	f func(context.Context, *App) (T, error)) (results []T, errs []error) {
	results, errs = make([]T, len(names)), make([]error, len(names))
	var running errgroup.Group
	running.SetLimit(atOnce)
	for i, name := range names {
		running.Go(func() error {
			sub := a.InContext(name)
			defer func() { _ = sub.Close() }() // what was done is done
			results[i], errs[i] = f(ctx, sub)
			errs[i] = fault.Database(errs[i])
			return nil
		})
	}
	_ = running.Wait() // it has no errors of its own
	return results, errs
}

// ReportContexts reports the error of each context, or the one that they all have. The exit code is
// the greatest.
func (a *App) ReportContexts(names []string, errs []error) error {
	other := func(err error) bool { return err == nil || errs[0] == nil || err.Error() != errs[0].Error() }
	if len(errs) > 0 && !slices.ContainsFunc(errs, other) {
		return errs[0]
	}
	code, failed := 0, 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		failed++
		if code = max(code, ExitCode(Ran(err))); !said(err) {
			a.Report(fault.Reword(err, "context %s: %v", names[i], err))
		}
	}
	if failed == 0 {
		return nil
	}
	return Said(code, fmt.Errorf("%s of %s failed", words.Count(int64(failed)),
		words.Counted(int64(len(names)), "context")))
}

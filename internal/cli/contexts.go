package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/safetext"
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

// A Found is what a command found in one context, or why it found nothing, as a row of its list.
type Found[T any] struct {
	Context string `json:"context"`
	Result  T      `json:"result"`
	// Problem is the error as a row shows it; empty where there is none.
	Problem string `json:"error,omitempty"`
	Err     error  `json:"-"`
}

// InContexts runs f in each context, so many side by side. What f opens is closed when it returns.
func InContexts[T any](ctx context.Context, a *App, names []string, atOnce int,
	f func(context.Context, *App) (T, error)) []Found[T] {
	found := make([]Found[T], len(names))
	var running errgroup.Group
	running.SetLimit(atOnce)
	for i, name := range names {
		running.Go(func() error {
			sub := a.InContext(name)
			defer func() { _ = sub.Close() }() // what was done is done
			result, err := f(ctx, sub)
			found[i] = Found[T]{Context: name, Result: result, Err: fault.Database(err)}
			if err != nil {
				found[i].Problem = safetext.Redact(found[i].Err.Error())
			}
			return nil
		})
	}
	_ = running.Wait() // it has no errors of its own
	return found
}

// ReportContexts reports the error of each context, or the one that they all have. The exit code is
// the greatest.
func ReportContexts[T any](a *App, found []Found[T]) error {
	other := func(f Found[T]) bool {
		return f.Err == nil || found[0].Err == nil || f.Err.Error() != found[0].Err.Error()
	}
	if len(found) > 0 && !slices.ContainsFunc(found, other) {
		return found[0].Err
	}
	code, failed := 0, 0
	for _, f := range found {
		if f.Err == nil {
			continue
		}
		failed++
		if code = max(code, ExitCode(Ran(f.Err))); !said(f.Err) {
			a.Report(fault.Reword(f.Err, "context %s: %v", f.Context, f.Err))
		}
	}
	if failed == 0 {
		return nil
	}
	return Said(code, fmt.Errorf("%s of %s failed", words.Count(int64(failed)),
		words.Counted(int64(len(found)), "context")))
}

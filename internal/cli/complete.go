package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// completeWithin bounds what pressing Tab may cost. A database that does not answer in time gives
// no suggestions.
const completeWithin = 800 * time.Millisecond

// Completion is what cobra calls when Tab is pressed.
type Completion = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// Complete makes a completion that of a flag. Nothing is registered where none is asked for: cobra
// keeps what completes a flag for as long as the process lives, and the flag with it.
func (a *App) Complete(cmd *cobra.Command, flag string, c Completion) {
	if a.Completing {
		Must(cmd.RegisterFlagCompletionFunc(flag, c))
	}
}

// CompleteFlags makes the shell suggest the values of a command's flags that have no completion of
// their own: by the flag's name, the values of one that has a few, and files and folders where a
// command takes them, which are suggested nowhere else.
func (a *App) CompleteFlags(cmd *cobra.Command) {
	if !a.Completing {
		return
	}
	named := byName(a)
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			kind, _ := pflag.UnquoteUsage(f)
			values, few := f.Value.(interface{ Choices() []string })
			own, has := cmd.GetFlagCompletionFunc(f.Name)
			switch {
			case has:
			case few:
				own = OneOf(values.Choices()...)
			case kind == "file":
				own = CompleteFiles()
			case kind == "dir":
				own = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
			default:
				own = named[f.Name]
			}
			if own != nil && !has {
				a.Complete(cmd, f.Name, own)
			}
		})
	}
}

// byName is what completes the flags of a name, whichever command has them.
func byName(a *App) map[string]Completion {
	return map[string]Completion{
		FlagContext: CompleteContexts(a), "run": CompleteAuditRuns(a), "data": completeData,
		"event":  CompleteEventIDs(a, ""),
		"state":  OneOf(outbox.DeadStates()...),
		"status": OneOf(append(outbox.Statuses(), outbox.AllStates)...),
		"reason": OneOf(outbox.DeadReasons()...),
	}
}

// OneOf suggests a few values.
func OneOf(values ...string) Completion {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// CompleteFiles leaves the suggestions to the shell.
func CompleteFiles() Completion { return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault) }

// completeIDs suggests ids that the database has. It never fails and never talks: the shell would
// show both in the middle of the line that is being typed.
func completeIDs(app *App, read func(ctx context.Context, box *dlq.Outbox, prefix string) ([]outbox.Suggestion, error)) Completion {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
		defer cancel()
		app.BindFlags(cmd) // the hook that does it for a command does not run for a completion
		app.Quiet()
		pool, err := app.Pool(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, _ := read(ctx, dlq.New(pool, nil), toComplete)
		var texts []string
		for _, f := range found {
			if strings.HasPrefix(f.Value, toComplete) {
				texts = append(texts, cobra.CompletionWithDesc(f.Value, safetext.Cut(safetext.Line(f.About), 80)))
			}
		}
		return texts, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeData suggests the files behind the @ of --data; without it the payload itself is being
// typed.
func completeData(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	typed, isFile := strings.CutPrefix(toComplete, "@")
	if !isFile {
		return []string{"@", "-"}, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	folder, _ := filepath.Split(typed)
	entries, err := os.ReadDir(cmp.Or(folder, "."))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	directive := cobra.ShellCompDirectiveNoFileComp
	for _, e := range entries {
		name := folder + e.Name()
		if !strings.HasPrefix(name, typed) {
			continue
		}
		if e.IsDir() {
			name, directive = name+"/", directive|cobra.ShellCompDirectiveNoSpace
		}
		found = append(found, "@"+name)
	}
	return found, directive
}

// CompleteDLQIDs suggests the newest dead letters in a state (empty: any).
func CompleteDLQIDs(app *App, state string) Completion {
	return completeIDs(app, func(ctx context.Context, box *dlq.Outbox, prefix string) ([]outbox.Suggestion, error) {
		return box.SuggestEntries(ctx, state, prefix)
	})
}

// CompleteEventIDs suggests the newest events in a status (empty: any).
func CompleteEventIDs(app *App, status string) Completion {
	return completeIDs(app, func(ctx context.Context, box *dlq.Outbox, prefix string) ([]outbox.Suggestion, error) {
		return box.SuggestEvents(ctx, status, prefix)
	})
}

// CompletePlans suggests the newest plans, with what they do and how far they are.
func CompletePlans(app *App) Completion {
	return completeIDs(app, func(ctx context.Context, box *dlq.Outbox, _ string) (found []outbox.Suggestion, err error) {
		newest := dlq.ListPlansParams{Page: outbox.Page{Limit: outbox.SuggestLimit}}
		_, err = box.ListPlans(ctx, newest, func(p dlq.Plan) error {
			found = append(found, outbox.Suggestion{Value: p.ID, About: string(p.Action) + ", " + p.State})
			return nil
		})
		return found, err
	})
}

// CompleteAuditRuns suggests the newest runs of the audit trail.
func CompleteAuditRuns(app *App) Completion {
	return completeIDs(app, func(ctx context.Context, box *dlq.Outbox, _ string) (found []outbox.Suggestion, err error) {
		newest := dlq.AuditParams{Page: outbox.Page{Limit: outbox.SuggestLimit}}
		_, err = box.AuditRuns(ctx, newest, func(r dlq.AuditRun) error {
			found = append(found, outbox.Suggestion{Value: r.Run, About: r.Action + " by " + r.Actor})
			return nil
		})
		return found, err
	})
}

// OnlyFirst completes the first argument and nothing after it.
func OnlyFirst(c Completion) Completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c(cmd, args, toComplete)
	}
}

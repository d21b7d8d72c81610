package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
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
	if strings.HasSuffix(cmd.Use, "FILE") {
		cmd.ValidArgsFunction = OnlyFirst(byShell(cobra.ShellCompDirectiveDefault))
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
				own = byShell(cobra.ShellCompDirectiveDefault)
			case kind == "dir":
				own = byShell(cobra.ShellCompDirectiveFilterDirs)
			case f.Name == "topic" && cmd.Flags().Lookup("fingerprint") != nil:
				builtin := func() []string { return registry.New().TopicNames() }
				own = completeLive(a, builtin, suggestGroups("topic"))
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
	types, consumers := CompleteTypes(a), CompleteConsumers(a)
	nothing := func(context.Context, string) ([]string, error) { return nil, nil }
	return map[string]Completion{
		FlagContext: CompleteContexts(a), "run": CompleteAuditRuns(a), "data": completeData,
		"event": CompleteEventIDs(a, ""), "type": types, "event-type": types,
		"topic":          completeCatalogue(a, (*registry.Registry).TopicNames),
		"aggregate-type": completeCatalogue(a, (*registry.Registry).Aggregates),
		"state":          OneOf(outbox.DeadStates()...),
		"status":         OneOf(append(outbox.Statuses(), outbox.AllStates)...),
		"reason":         complete(a, outbox.DeadReasons, nothing),
		"fingerprint":    completeLive(a, nil, suggestGroups("fingerprint")),
		"consumer":       consumers, "consumers": consumers, "check-consumers": consumers,
	}
}

// OneOf suggests a few values.
func OneOf(values ...string) Completion {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// byShell leaves the suggestions to the shell.
func byShell(what cobra.ShellCompDirective) Completion { return cobra.FixedCompletions(nil, what) }

// completeLive suggests what read finds in the database, or else the fallback, which is asked only
// then: every command of the tree has completions, and reading the built-in catalogue takes a
// millisecond. It never fails and never talks: the shell would show both in the middle of the line
// that is being typed.
func completeLive(app *App, fallback func() []string,
	read func(ctx context.Context, box *dlq.Outbox, prefix string) ([]outbox.Suggestion, error)) Completion {
	return complete(app, fallback, func(ctx context.Context, prefix string) ([]string, error) {
		pool, err := app.Pool(ctx)
		if err != nil {
			return nil, err
		}
		found, err := read(ctx, dlq.New(pool, nil), prefix)
		texts := make([]string, len(found))
		for i, f := range found {
			// The tab separates a value from what the shell shows beside it, so the texts
			// themselves are cleaned first.
			texts[i] = safetext.Line(f.Value) + "\t" + safetext.Cut(safetext.Line(f.About), 80)
		}
		return texts, err
	})
}

// completeCatalogue suggests what the catalogue names.
func completeCatalogue(app *App, names func(*registry.Registry) []string) Completion {
	return complete(app, func() []string { return names(registry.New()) }, func(ctx context.Context, _ string) ([]string, error) {
		types, err := app.Registry(ctx)
		if err != nil {
			return nil, err
		}
		return names(types), nil
	})
}

func complete(app *App, fallback func() []string, read func(ctx context.Context, prefix string) ([]string, error)) Completion {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
		defer cancel()
		app.BindFlags(cmd) // the hook that does it for a command does not run for a completion
		app.Quiet()
		// Of a list of values the last one is being typed.
		done, typing := "", toComplete
		if comma := strings.LastIndex(toComplete, ","); comma >= 0 {
			done, typing = toComplete[:comma+1], toComplete[comma+1:]
		}
		found, err := read(ctx, typing)
		if (err != nil || len(found) == 0) && fallback != nil {
			found = fallback()
		}
		var fitting []string
		for _, value := range found {
			if strings.HasPrefix(value, typing) {
				fitting = append(fitting, done+value)
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
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
	return completeLive(app, nil, func(ctx context.Context, box *dlq.Outbox, prefix string) ([]outbox.Suggestion, error) {
		return box.SuggestEntries(ctx, state, prefix)
	})
}

// CompleteEventIDs suggests the newest events in a status (empty: any).
func CompleteEventIDs(app *App, status string) Completion {
	return completeLive(app, nil, func(ctx context.Context, box *dlq.Outbox, prefix string) ([]outbox.Suggestion, error) {
		return box.SuggestEvents(ctx, status, prefix)
	})
}

// CompleteTypes suggests the catalogue's event types.
func CompleteTypes(app *App) Completion {
	return completeCatalogue(app, (*registry.Registry).EventTypes)
}

func suggestGroups(by string) func(context.Context, *dlq.Outbox, string) ([]outbox.Suggestion, error) {
	return func(ctx context.Context, box *dlq.Outbox, _ string) ([]outbox.Suggestion, error) {
		return box.SuggestGroups(ctx, by)
	}
}

// CompletePlans suggests the newest plans, with what they do and how far they are.
func CompletePlans(app *App) Completion {
	return completeLive(app, nil, func(ctx context.Context, box *dlq.Outbox, _ string) (found []outbox.Suggestion, err error) {
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
	return completeLive(app, nil, func(ctx context.Context, box *dlq.Outbox, _ string) (found []outbox.Suggestion, err error) {
		newest := dlq.AuditParams{Page: outbox.Page{Limit: outbox.SuggestLimit}}
		_, err = box.AuditRuns(ctx, newest, func(r dlq.AuditRun) error {
			found = append(found, outbox.Suggestion{Value: r.Run, About: r.Action + " by " + r.Actor})
			return nil
		})
		return found, err
	})
}

// CompleteConsumers suggests the consumers that Redis or the inbox knows; each is asked though the
// other is away.
func CompleteConsumers(app *App) Completion {
	return complete(app, nil, func(ctx context.Context, _ string) ([]string, error) {
		var inbox, announced []string
		pool, err := app.Pool(ctx)
		if err == nil {
			inbox, err = dlq.New(pool, nil).InboxConsumers(ctx)
		}
		keeper, redisErr := app.Keeper()
		if redisErr == nil {
			announced, redisErr = keeper.Consumers(ctx)
		}
		names := slices.Concat(inbox, announced)
		slices.Sort(names)
		return slices.Compact(names), errors.Join(err, redisErr)
	})
}

// CompletePauses suggests what is paused of one kind.
func CompletePauses(app *App, kind string) Completion {
	return completeLive(app, nil, func(ctx context.Context, box *dlq.Outbox, _ string) (found []outbox.Suggestion, err error) {
		pauses, err := outbox.Pauses(ctx, box.DB)
		for _, p := range pauses {
			if p.Kind == kind {
				found = append(found, outbox.Suggestion{Value: p.Value, About: "paused by " + p.Actor + " " + p.Note})
			}
		}
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

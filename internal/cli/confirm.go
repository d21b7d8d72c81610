package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/pgpool"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// AddYesFlag gives a destructive command its --yes.
func AddYesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVarP(yes, "yes", "y", false, "do not ask for confirmation")
}

// typedAbove is from how many rows on the name of a production context has to be typed.
const typedAbove = 100

// Destroys is how many rows a change counts for that takes more than rows, or what cannot be had
// again: tables, the meaning of events, what keeps an effect single.
const Destroys int64 = math.MaxInt64

// Confirm lets a destructive command go on only when it was confirmed: by --yes, or by an answer at
// the terminal. The caller has already told on Err what will be touched. Without a terminal it
// cannot ask, and refuses. Every question names database and context, and the name of a production
// context is the answer when many rows are touched, or it destroys.
func (a *App) Confirm(ctx context.Context, yes bool, rows int64, question string) error {
	if yes {
		return nil
	}
	where := a.Where()
	if a.inProduction() {
		where = a.Paint(a.ErrTTY, StyleError, where)
	} else if a.cfg != nil && a.cfg.Context != nil {
		where = a.Paint(a.ErrTTY, StyleFaint, where)
	}
	question += where
	if !a.InTTY || !a.ErrTTY {
		hint := "add --yes to do it"
		if a.dryRun {
			hint += ", or --dry-run to see what it would touch"
		}
		return fault.Hint(fault.Refusedf("%s: not confirmed", question), "%s", hint)
	}
	accepted := []string{"y", "yes"}
	if a.inProduction() && rows > typedAbove {
		accepted = []string{strings.ToLower(a.cfg.Context.Name)}
		fmt.Fprintf(a.Err, "%s\ntype %s to continue: ", question, a.cfg.Context.Name)
	} else {
		fmt.Fprintf(a.Err, "%s [y/N] ", question)
	}
	answer, err := a.readLine(ctx)
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(a.Err) // Ctrl-D is a no that leaves the cursor behind the question
	} else if err != nil {
		return err
	}
	if slices.Contains(accepted, strings.ToLower(strings.TrimSpace(answer))) {
		return nil
	}
	return fault.Refusedf("nothing was changed")
}

// Where names where a change is made, for a question and for the summary that follows it: the
// database, its host and the context. It is empty where neither is used.
func (a *App) Where() string {
	var parts []string
	if a.pool != nil {
		c := a.pool.Config().ConnConfig
		parts = append(parts, safetext.Line(cmp.Or(c.Database, c.User)+" on "+pgpool.Host(c)))
	}
	if a.cfg != nil && a.cfg.Context != nil {
		parts = append(parts, "context "+safetext.Line(a.cfg.Context.Name))
	}
	if len(parts) == 0 {
		return ""
	}
	return " in " + strings.Join(parts, ", ")
}

func (a *App) inProduction() bool {
	return a.cfg != nil && a.cfg.Context != nil && a.cfg.Context.Production
}

// A Question is what a command asks for that no flag has given.
type Question struct {
	Text, Flag string
	// Given is the flag's value, Default what counts where nothing is given or answered.
	Given, Default string
	Check          func(answer string) error
}

// Ask returns what was given, or the answer at the terminal, or the default. A bad answer is asked
// for again.
func (a *App) Ask(ctx context.Context, q Question) (string, error) {
	asks := a.InTTY && a.ErrTTY && q.Given == ""
	for {
		answer := cmp.Or(q.Given, q.Default)
		if asks {
			fmt.Fprint(a.Err, q.Text)
			if q.Default != "" {
				fmt.Fprintf(a.Err, " [%s]", q.Default)
			}
			fmt.Fprint(a.Err, ": ")
			line, err := a.readLine(ctx)
			if errors.Is(err, io.EOF) {
				return "", fault.Usagef("--%s: is not given", q.Flag)
			}
			if err != nil {
				return "", err
			}
			answer = cmp.Or(strings.TrimSpace(line), q.Default)
		}
		err := errors.New("is not given")
		if answer != "" {
			if err = q.Check(answer); err == nil {
				return answer, nil
			}
		}
		if !asks {
			return "", fault.Hint(fault.Usagef("--%s: %w", q.Flag, err), "%s", q.Text)
		}
		fmt.Fprintln(a.Err, safetext.Line(err.Error()))
	}
}

// readLine reads one line and gives up when the context ends: a read from a terminal cannot be
// interrupted, so it is left behind for the end of the process.
func (a *App) readLine(ctx context.Context) (string, error) {
	if a.lines == nil {
		a.lines = bufio.NewReader(a.In)
	}
	var line string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if line, err = a.lines.ReadString('\n'); line != "" {
			err = nil
		}
	}()
	select {
	case <-done:
		return line, err
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return "", ctx.Err()
	}
}

package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

type dlqEditOptions struct {
	app *cli.App

	id     string
	data   string
	dryRun bool
	doFlags
}

func newDLQEditCmd(app *cli.App) *cobra.Command {
	opts := &dlqEditOptions{app: app}
	cmd := &cobra.Command{
		Use:   "edit ID",
		Short: "Correct the payload of a dead event and send it",
		Long: `Correct what an event carries and send it. The payload opens in $VISUAL or $EDITOR;
what you write is checked against the catalogue, shown as a difference and, when you agree, emitted
as a new event that names the old one in its header corrects. The old event's dead letter is
discarded. All of that is one transaction with one audit row.

The new event has the old one's place in its ordering key: what waits behind the old one is
published after the new one is published. A dead letter is corrected once; a second operator is told
by which event.

A payload that is left as it was, and an editor that fails, change nothing. Without a terminal give
the payload with --data.`,
		Example: `  outboxctl dlq edit 01890a5d-ac96-774b-bcce-b302099a8057 --note 'amount was a text'
  outboxctl dlq show $ID --payload raw -o json --jq '.payload.data | .amountCents = 1850' | outboxctl dlq edit $ID --data - --yes
  outboxctl dlq edit 01890a5d --data @payload.json --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.id = args[0]
			return runDLQEdit(cmd.Context(), opts)
		},
		ValidArgsFunction: cli.OnlyFirst(cli.CompleteDLQIDs(app, dlq.StateOpen)),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.data, "data", "", "the payload instead of an editor: JSON, @file, or - for standard input")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "check the payload and show the difference, and change nothing")
	opts.add(cmd)
	return cmd
}

func runDLQEdit(ctx context.Context, opts *dlqEditOptions) error {
	app := opts.app
	if err := app.RefuseEmpty("data"); err != nil {
		return err
	}
	if _, err := outbox.ParseID(opts.id); err != nil {
		return err
	}
	if opts.data == "" && !(app.InTTY && app.ErrTTY) {
		return fault.Hint(fault.Usagef("an editor needs a terminal"), "give the payload with --data '{…}', --data @file or --data -")
	}
	var data []byte
	var err error
	if opts.data != "" {
		if data, err = readData(app, opts.data); err != nil {
			return err
		}
	}
	box, err := app.Outbox(ctx)
	if err != nil {
		return err
	}
	edit, err := box.ChooseEdit(ctx, opts.id)
	if err != nil {
		return err
	}
	if opts.data == "" {
		if data, err = opts.fromEditor(ctx, edit); err != nil {
			return err
		}
	}
	if edit.Same(data) {
		fmt.Fprintln(app.Err, "the payload is as it was: nothing was changed")
		return nil
	}
	if err := edit.Check(data); err != nil {
		return err
	}
	return opts.apply(ctx, edit, data)
}

// apply shows what changes, asks and does it.
func (o *dlqEditOptions) apply(ctx context.Context, edit *dlq.Editing, data []byte) error {
	w := o.app.Err
	l := edit.Letter
	fmt.Fprintf(w, "%s event %s, %s: %s\n", safetext.Line(l.EventType), l.EventID, l.Reason, safetext.Cut(safetext.Line(l.ErrorMessage), 160))
	o.app.WriteDiff(w, o.app.ErrTTY, indentedLike(edit.Data, data), indented(data))
	if l.Blocks > 0 {
		fmt.Fprintf(w, "%s behind it in its ordering key %s for the corrected one\n", words.Counted(l.Blocks, "event"), plural(l.Blocks, "waits", "wait"))
	}
	if !o.dryRun {
		const question = "send the corrected event and discard the dead letter"
		if err := o.app.Confirm(ctx, o.yes, 1, question); err != nil {
			return err
		}
	}
	r, err := edit.Apply(ctx, dlq.EditParams{Data: data, Actor: o.app.Actor(o.audit), Note: o.audit.Note, DryRun: o.dryRun})
	if err != nil {
		return err
	}
	return cli.WriteObject(o.app, o.output, r, func(out io.Writer) error {
		text := "valid: would be emitted as a new event, and the dead letter discarded\n"
		if !r.DryRun {
			text = fmt.Sprintf("corrected by event %s%s; see what becomes of it with: outboxctl why %s\n", r.CorrectedBy, o.app.Where(), r.CorrectedBy)
		}
		_, err := io.WriteString(out, text)
		return err
	})
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func indented(data []byte) string {
	var text bytes.Buffer
	if json.Indent(&text, bytes.TrimSpace(data), "", "  ") != nil {
		return string(data)
	}
	return text.String()
}

// indentedLike is indented, with the keys sorted where those of another payload are, as jq writes
// them: else all lines would differ.
func indentedLike(data, other []byte) string {
	if sorted := indentedSorted(data); sorted != "" && indentedSorted(other) == indented(other) {
		return sorted
	}
	return indented(data)
}

func indentedSorted(data []byte) string {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return ""
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if encoder.Encode(value) != nil {
		return ""
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// fromEditor lets a person write the payload until it is valid or they leave it as it is. The file
// has a folder of its own, which other users cannot read and which is gone afterwards, with what
// the editor left beside it: it holds a payload.
func (o *dlqEditOptions) fromEditor(ctx context.Context, edit *dlq.Editing) ([]byte, error) {
	// A terminal that is closed in the meantime would end the process before it can remove the folder.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	folder, err := os.MkdirTemp(o.app.Env("TMPDIR"), "outboxctl-edit-")
	if err != nil {
		return nil, fmt.Errorf("edit the payload: %w", err)
	}
	text, err := o.write(ctx, edit, filepath.Join(folder, "payload.json"))
	if gone := os.RemoveAll(folder); err == nil && gone != nil {
		err = fmt.Errorf("remove the payload that was edited: %w", gone)
	}
	return []byte(text), err
}

// write opens the file in the editor, again with what is wrong at the top, until it is valid or
// left as it was.
func (o *dlqEditOptions) write(ctx context.Context, edit *dlq.Editing, name string) (text string, err error) {
	var problem error
	for text = indented(edit.Data) + "\n"; ; {
		if err := os.WriteFile(name, []byte(editHead(edit, problem)+text), 0o600); err != nil {
			return "", fmt.Errorf("edit the payload: %w", err)
		}
		if err := o.app.EditFile(ctx, name); err != nil {
			return "", err
		}
		written, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("edit the payload: %w", err)
		}
		before := text
		text = withoutComments(string(written))
		problem = edit.Check([]byte(text))
		if problem == nil || edit.Same([]byte(text)) {
			return text, nil
		}
		if text == before {
			return "", fault.Hint(problem, "nothing was changed")
		}
	}
}

// editHead tells in the file what it is about, in lines that are not part of the payload.
func editHead(edit *dlq.Editing, problem error) string {
	l := edit.Letter
	var lines []string
	if problem != nil {
		lines = append(lines, strings.Split(problem.Error(), "\n")...)
		lines = append(lines, "Leave it as it is to give up.", "")
	}
	lines = append(lines,
		"The payload of "+l.EventType+" "+l.EventID+", "+l.AggregateType+"/"+l.AggregateID+".",
		"It died of "+l.Reason+": "+safetext.Cut(l.ErrorMessage, 400),
		"Lines that begin with # are left out. An unchanged payload changes nothing.")
	var head strings.Builder
	for _, line := range lines {
		head.WriteString(strings.TrimRight("# "+safetext.Line(line), " ") + "\n")
	}
	return head.String()
}

// withoutComments leaves out the lines that begin with #. No line of JSON does.
func withoutComments(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

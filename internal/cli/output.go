package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// The forms in which a list can be printed. JSON is the contract for programs.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatJSONL = "jsonl"
	FormatID    = "id"
)

// ListFormats are the forms in which a list can be printed.
func ListFormats() []string {
	return []string{FormatTable, FormatWide, FormatJSON, FormatJSONL, FormatID}
}

// ObjectFormats are the forms in which one thing can be printed.
func ObjectFormats() []string { return []string{FormatTable, FormatJSON} }

// An Output is what a command was asked to print: the form, and what jq makes of it.
type Output struct {
	Format string

	jq      *jqQuery
	allowed []string
}

// Form is the form that is printed: what jq is applied to is JSON.
func (o *Output) Form() string {
	if o.jq != nil {
		return FormatJSON
	}
	return o.Format
}

func (o *Output) String() string { return o.Format }

// Type implements pflag.Value.
func (o *Output) Type() string { return "format" }

// Choices are the forms that the command supports.
func (o *Output) Choices() []string { return o.allowed }

// Set implements pflag.Value.
func (o *Output) Set(text string) error { return choose(&o.Format, text, o.allowed) }

// AddOutputFlags gives a command --jq, and -o with the forms it supports; the first is the default.
func AddOutputFlags(cmd *cobra.Command, o *Output, formats ...string) {
	o.Format, o.allowed = formats[0], formats
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(formats, ", "))
	cmd.Flags().Var(&flagValue{"expression", o.jqText, o.setJQ}, "jq",
		"print what this jq `expression` makes of the JSON output")
}

// A Column is one column of a list.
type Column[T any] struct {
	Head string
	// Field is the JSON key, or the keys with blanks between them, that stand for the column on a
	// pipe; Head where it is empty.
	Field string
	Wide  bool // only in wide
	// Whole keeps the cell from being cut to the terminal's width.
	Whole bool
	// ID is a column of ids: a table on a terminal shows the first shortID characters of them, and
	// never fewer.
	ID bool
	// Rest gives the column the room that the others leave: it is cut before they are.
	Rest bool
	// Wrap breaks a long cell into lines instead of cutting it.
	Wrap bool
	// From is the width of the terminal from which the column is shown, whatever the rows hold.
	From int
	// Cell returns the plain value; making it safe to show is the output layer's business. Without
	// one the field is shown: a time by its age, a number with grouped digits; several fields with
	// / between them.
	Cell func(row T, r *CellStyle) string
	// Style, where set, chooses the colour of the cell on a terminal.
	Style func(row T) Style
}

func (c Column[T]) field() string { return cmp.Or(c.Field, c.Head) }

// least is how narrow the column may be made, when any may be made so narrow and one with the rest
// of the room so.
func (c Column[T]) least(cell, rest int) int {
	switch {
	case c.Whole || c.ID:
		return math.MaxInt
	case c.Rest:
		return rest
	default:
		return cell
	}
}

// A View tells how the rows of a list look. JSON and JSON lines take the row itself, by its tags.
type View[T any] struct {
	Columns []Column[T]
	// ID names a row; nil: its field id does.
	ID func(row T) string
	// Empty is said on Err instead of a table without rows.
	Empty string
}

// A ListWriter prints a list row by row. A table on a terminal is printed by Close; all other forms
// as the rows come, so a list of a million rows needs no memory.
type ListWriter[T any] interface {
	Write(row T) error
	Close() error
}

// NewListWriter starts a list on Out.
func NewListWriter[T any](a *App, o Output, v View[T]) ListWriter[T] {
	switch {
	case o.jq != nil: // it is given the array that -o json prints
		each, end := whole(func(rows any) error { return o.jq.write(a.Out, rows) })
		return &encoded[T]{each, end}
	case o.Format == FormatJSON:
		each, end := jsonArray(a.Out)
		return &encoded[T]{each, end}
	case o.Format == FormatJSONL:
		return &encoded[T]{func(row any) error { return EncodeJSON(a.Out, row, "") }, func() error { return nil }}
	case o.Format == FormatID:
		return &idList[T]{out: a.Out, view: v}
	case !a.OutTTY:
		return &separated[T]{out: a.Out, fields: v.fields(o.Format == FormatWide)}
	}
	t := &table[T]{out: a.Out, view: v, r: a.renderer()}
	if o.Format == FormatTable {
		t.width = a.Width
		t.view.Columns = slices.DeleteFunc(slices.Clone(v.Columns), func(c Column[T]) bool { return c.Wide })
	}
	return t
}

// fields are the JSON keys of a list on a pipe: those of the columns that a table shows, or all.
func (v View[T]) fields(all bool) (fields []string) {
	keys := jsonKeys[T]()
	if all {
		return keys
	}
	for _, c := range v.Columns {
		if c.Wide {
			continue
		}
		for _, field := range strings.Fields(c.field()) {
			if !slices.Contains(keys, field) {
				panic("column " + c.Head + ": the rows have no JSON key " + field)
			}
			if !slices.Contains(fields, field) {
				fields = append(fields, field)
			}
		}
	}
	return fields
}

// WriteList prints a whole list.
func WriteList[T any](a *App, o Output, v View[T], rows []T) error {
	w := NewListWriter(a, o, v)
	for _, row := range rows {
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return w.Close()
}

// WritePage prints one part of a list on Out, and the command for the next part, if there is one,
// on Err.
func WritePage[T any](a *App, cmd *cobra.Command, o Output, v View[T],
	list func(each func(T) error) (outbox.Paged, error)) error {
	w := NewListWriter(a, o, v)
	page, err := list(w.Write)
	if err == nil {
		err = w.Close()
	}
	if err == nil && page.Next != "" {
		fmt.Fprintf(a.Err, "more rows: %s\n",
			CommandLine(cmd, nil, map[string]string{"cursor": page.Next}))
	}
	return err
}

// WriteObject prints one thing: JSON as asked, otherwise the page that human writes.
func WriteObject(a *App, o Output, value any, human func(p *Page)) error {
	switch {
	case o.jq != nil:
		return o.jq.write(a.Out, value)
	case o.Format == FormatJSON:
		return EncodeJSON(a.Out, value, "  ")
	case o.Format == FormatJSONL:
		return EncodeJSON(a.Out, value, "")
	default:
		page := &Page{app: a, w: a.Out}
		human(page)
		return page.err
	}
}

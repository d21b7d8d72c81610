package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// The forms in which a list can be printed. JSON is the contract for programs.
const (
	FormatTable = "table"
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatJSONL = "jsonl"
	FormatYAML  = "yaml"
	FormatCSV   = "csv"
	FormatID    = "id"
)

// ListFormats are the forms in which a list can be printed.
func ListFormats() []string {
	return []string{FormatTable, FormatWide, FormatJSON, FormatJSONL, FormatYAML, FormatCSV, FormatID}
}

// ObjectFormats are the forms in which one thing can be printed.
func ObjectFormats() []string { return []string{FormatTable, FormatJSON, FormatYAML} }

// An Output is what a command was asked to print: the form, which fields of it, and what jq makes
// of it.
type Output struct {
	Format string
	// Fields are the JSON keys to print, in this order; none means all.
	Fields []string
	keys   []string // that there are

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

// AddOutputFlags gives a command -o with the forms it supports, the first is the default; --jq, and
// a list --fields.
func AddOutputFlags(cmd *cobra.Command, o *Output, formats ...string) {
	o.Format, o.allowed = formats[0], formats
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(formats, ", "))
	if slices.Contains(formats, FormatCSV) {
		show := func() string { return strings.Join(o.Fields, ",") }
		cmd.Flags().Var(&flagValue{"strings", show, o.addFields}, "fields", "print only these `keys` of the JSON output, separated by commas, in any format")
	}
	cmd.Flags().Var(&flagValue{"expression", o.jqText, o.setJQ}, "jq",
		"print what this jq `expression` makes of the JSON output")
}

// AddListOutput gives a command that lists rows of T its output flags.
func AddListOutput[T any](cmd *cobra.Command, o *Output) {
	AddOutputFlags(cmd, o, ListFormats()...)
	KnowFields[T](o)
}

// KnowFields says that a command prints rows of T: --fields takes their keys and no others.
func KnowFields[T any](o *Output) { o.keys = append(o.keys, jsonKeys[T]()...) }

// addFields checks the keys as they are read: what is wrong with a command line is said before
// anything is opened or done.
func (o *Output) addFields(text string) error {
	if text != "" {
		o.Fields = append(o.Fields, strings.Split(text, ",")...)
	}
	if len(o.Fields) == 0 {
		return fault.Hint(errors.New("must not be empty"), "the fields are %s",
			strings.Join(o.keys, ","))
	}
	return checkFields(o.Fields, o.keys)
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
	// ID is a column of ids, which are shown as far as the view shortens them and never cut: half
	// an id is of no use.
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

// A View tells how the rows of a list look. JSON, JSON lines and YAML take the row itself, by its
// JSON tags.
type View[T any] struct {
	Columns []Column[T]
	// ID names a row; nil: its field id does.
	ID func(row T) string
	// Empty is said on Err instead of a table without rows.
	Empty string
	// Shorten returns how many characters of the ids in a table are enough to tell each from all
	// others there are; 0 is all of them.
	Shorten func(ids []string) int
}

// A ListWriter prints a list row by row. Table and YAML are printed by Close; all other forms as
// the rows come, so a list of a million rows needs no memory.
type ListWriter[T any] interface {
	Write(row T) error
	Close() error
}

// NewListWriter starts a list on Out. Fields that the rows do not have are an error.
func NewListWriter[T any](a *App, o Output, v View[T]) (ListWriter[T], error) {
	keys := jsonKeys[T]()
	if err := checkFields(o.Fields, keys); err != nil {
		return nil, err
	}
	r, list := a.renderer(), &encoded[T]{fields: o.Fields}
	switch {
	case o.jq != nil: // it is given the array that -o json prints
		list.each, list.end = whole(func(rows any) error { return o.jq.write(a.Out, rows) })
	case o.Format == FormatJSON:
		list.each, list.end = jsonArray(a.Out)
	case o.Format == FormatJSONL:
		list.each, list.end = jsonLines(a.Out)
	case o.Format == FormatYAML:
		list.each, list.end = whole(func(rows any) error { return encodeYAML(a.Out, rows) })
	case o.Format == FormatCSV:
		fields := o.Fields
		if fields == nil {
			fields = keys
		}
		return &separated[T]{line: csvLine(a.Out), fields: fields}, nil
	case o.Format == FormatID:
		return &idList[T]{out: a.Out, view: v}, nil
	}
	if list.each != nil {
		return list, nil
	}
	v.Columns = v.shown(o, r)
	if !a.OutTTY {
		fields := o.Fields
		if fields == nil {
			fields = v.fields(keys, o.Format == FormatWide)
		}
		return &separated[T]{line: tabLine(a.Out), fields: fields}, nil
	}
	t := &table[T]{out: a.Out, view: v, r: r}
	if o.Format == FormatTable {
		t.width = a.Width
	}
	return t, nil
}

// shown are the columns of a table: those that were asked for, or those of the form.
func (v View[T]) shown(o Output, r *CellStyle) []Column[T] {
	if o.Fields == nil {
		return slices.DeleteFunc(slices.Clone(v.Columns), func(c Column[T]) bool { return c.Wide && o.Format == FormatTable })
	}
	columns := make([]Column[T], len(o.Fields))
	for i, field := range o.Fields {
		at := slices.IndexFunc(v.Columns, func(c Column[T]) bool { return c.field() == field })
		if at >= 0 {
			columns[i] = v.Columns[at]
			columns[i].From = 0
			continue
		}
		columns[i] = Column[T]{Head: field, Field: field, Cell: func(row T, _ *CellStyle) string { return fieldTexts(row, []string{field})[0] }}
	}
	return columns
}

// fields are the JSON keys of a list on a pipe: those of its columns, or all.
func (v View[T]) fields(keys []string, all bool) (fields []string) {
	if all {
		return keys
	}
	for _, c := range v.Columns {
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
	w, err := NewListWriter(a, o, v)
	if err != nil {
		return err
	}
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
	w, err := NewListWriter(a, o, v)
	if err != nil {
		return err
	}
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

// WriteObject prints one thing: JSON or YAML as asked, otherwise the page that human writes.
func WriteObject(a *App, o Output, value any, human func(p *Page)) error {
	if o.Fields != nil {
		if err := checkFields(o.Fields, keysOf(reflect.TypeOf(value))); err != nil {
			return err
		}
	}
	picked, err := pick(value, o.Fields)
	switch {
	case err != nil:
		return err
	case o.jq != nil:
		return o.jq.write(a.Out, picked)
	case o.Format == FormatJSON:
		return EncodeJSON(a.Out, picked, "  ")
	case o.Format == FormatJSONL:
		return EncodeJSON(a.Out, picked, "")
	case o.Format == FormatYAML:
		return encodeYAML(a.Out, picked)
	default:
		page := &Page{app: a, w: a.Out}
		human(page)
		return page.err
	}
}

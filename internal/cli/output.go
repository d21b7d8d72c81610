package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/safetext"
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

// OutputFlag is the -o of a command: one of the forms the command can print.
type OutputFlag struct {
	Format  string
	allowed []string
}

func (f *OutputFlag) String() string { return f.Format }

// Type implements pflag.Value.
func (f *OutputFlag) Type() string { return "format" }

// Set implements pflag.Value.
func (f *OutputFlag) Set(text string) error {
	if !slices.Contains(f.allowed, text) {
		return fmt.Errorf("%q is none of %s", text, strings.Join(f.allowed, ", "))
	}
	f.Format = text
	return nil
}

// AddOutputFlag gives a command -o with the forms it supports; the first is the default.
func AddOutputFlag(cmd *cobra.Command, f *OutputFlag, formats ...string) {
	f.Format, f.allowed = formats[0], formats
	cmd.Flags().VarP(f, "output", "o", "output format: "+strings.Join(formats, ", "))
	Must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
}

// A Column is one column of a list.
type Column[T any] struct {
	Head string
	Wide bool // only in wide and csv
	// Whole keeps the cell from being cut to the terminal's width: half an id is no use to anybody.
	Whole bool
	// Wrap breaks a long cell into lines instead of cutting it.
	Wrap bool
	// Spare columns are left out of a table that would be wider than the terminal, the lowest number first; 0 always stays.
	Spare int
	// Cell returns the plain value; making it safe to show is the output layer's business.
	Cell func(row T, r *CellStyle) string
	// style, where set, chooses the colour of the cell on a terminal.
	Style func(row T) Style
}

// A View tells how the rows of a list look. JSON, JSON lines and YAML take the row itself, by its JSON tags.
type View[T any] struct {
	Columns []Column[T]
	ID      func(row T) string
}

// A ListWriter prints a list row by row. Table and YAML are printed by Close; all other forms as the rows come, so a
// list of a million rows needs no memory.
type ListWriter[T any] interface {
	Write(row T) error
	Close() error
}

// NewListWriter starts a list on Out.
func NewListWriter[T any](a *App, format string, v View[T]) ListWriter[T] {
	r := a.renderer()
	switch format {
	case FormatJSON:
		return &jsonList[T]{out: a.Out}
	case FormatJSONL:
		return &jsonLines[T]{out: a.Out}
	case FormatYAML:
		return &yamlList[T]{out: a.Out}
	case FormatCSV:
		r.human = false
		return &separated[T]{w: csv.NewWriter(a.Out), view: v, r: r, clean: safetext.CSVCell}
	case FormatID:
		return &idList[T]{out: a.Out, view: v}
	default:
		columns := slices.Clone(v.Columns)
		if format == FormatTable {
			columns = slices.DeleteFunc(columns, func(c Column[T]) bool { return c.Wide })
		} else {
			for i := range columns {
				columns[i].Spare = 0 // -o wide shows everything
			}
		}
		v.Columns = columns
		if a.OutTTY {
			return &table[T]{out: a.Out, view: v, r: r, width: a.Width}
		}
		w := csv.NewWriter(a.Out)
		w.Comma = '\t'
		return &separated[T]{w: w, view: v, r: r, clean: safetext.Line}
	}
}

// WriteList prints a whole list.
func WriteList[T any](a *App, format string, v View[T], rows []T) error {
	w := NewListWriter(a, format, v)
	for _, row := range rows {
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return w.Close()
}

// WriteObject prints one thing: JSON or YAML as asked, otherwise what human writes.
func WriteObject(a *App, format string, value any, human func(w io.Writer) error) error {
	switch format {
	case FormatJSON:
		return EncodeJSON(a.Out, value, "  ")
	case FormatJSONL:
		return EncodeJSON(a.Out, value, "")
	case FormatYAML:
		return encodeYAML(a.Out, value)
	default:
		return human(a.Out)
	}
}

package cmd

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
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatYAML  = "yaml"
	formatCSV   = "csv"
	formatID    = "id"
)

func listFormats() []string {
	return []string{formatTable, formatWide, formatJSON, formatJSONL, formatYAML, formatCSV, formatID}
}

func objectFormats() []string { return []string{formatTable, formatJSON, formatYAML} }

// outputFlag is the -o of a command: one of the forms the command can print.
type outputFlag struct {
	format  string
	allowed []string
}

func (f *outputFlag) String() string { return f.format }
func (f *outputFlag) Type() string   { return "format" }
func (f *outputFlag) Set(text string) error {
	if !slices.Contains(f.allowed, text) {
		return fmt.Errorf("%q is none of %s", text, strings.Join(f.allowed, ", "))
	}
	f.format = text
	return nil
}

// addOutputFlag gives a command -o with the forms it supports; the first is the default.
func addOutputFlag(cmd *cobra.Command, f *outputFlag, formats ...string) {
	f.format, f.allowed = formats[0], formats
	cmd.Flags().VarP(f, "output", "o", "output format: "+strings.Join(formats, ", "))
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
}

// A column is one column of a list.
type column[T any] struct {
	head string
	wide bool // only in wide and csv
	// whole keeps the cell from being cut to the terminal's width: half an id is no use to anybody.
	whole bool
	// wrap breaks a long cell into lines instead of cutting it.
	wrap bool
	// spare columns are left out of a table that would be wider than the terminal, the lowest number first; 0 always stays.
	spare int
	// cell returns the plain value; making it safe to show is the output layer's business.
	cell func(row T, r *cellStyle) string
	// style, where set, chooses the colour of the cell on a terminal.
	style func(row T) style
}

// A view tells how the rows of a list look. JSON, JSON lines and YAML take the row itself, by its JSON tags.
type view[T any] struct {
	columns []column[T]
	id      func(row T) string
}

// A listWriter prints a list row by row. Table and YAML are printed by Close; all other forms as the rows come, so a
// list of a million rows needs no memory.
type listWriter[T any] interface {
	Write(row T) error
	Close() error
}

// newListWriter starts a list on Out.
func newListWriter[T any](a *App, format string, v view[T]) listWriter[T] {
	r := a.renderer()
	switch format {
	case formatJSON:
		return &jsonList[T]{out: a.Out}
	case formatJSONL:
		return &jsonLines[T]{out: a.Out}
	case formatYAML:
		return &yamlList[T]{out: a.Out}
	case formatCSV:
		r.human = false
		return &separated[T]{w: csv.NewWriter(a.Out), view: v, r: r, clean: safetext.CSVCell}
	case formatID:
		return &idList[T]{out: a.Out, view: v}
	default:
		columns := slices.Clone(v.columns)
		if format == formatTable {
			columns = slices.DeleteFunc(columns, func(c column[T]) bool { return c.wide })
		} else {
			for i := range columns {
				columns[i].spare = 0 // whoever asks for everything gets it
			}
		}
		v.columns = columns
		if a.OutTTY {
			return &table[T]{out: a.Out, view: v, r: r, width: a.Width}
		}
		w := csv.NewWriter(a.Out)
		w.Comma = '\t'
		return &separated[T]{w: w, view: v, r: r, clean: safetext.Line}
	}
}

// writeList prints a whole list.
func writeList[T any](a *App, format string, v view[T], rows []T) error {
	w := newListWriter(a, format, v)
	for _, row := range rows {
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return w.Close()
}

// writeObject prints one thing: JSON or YAML as asked, otherwise what human writes.
func writeObject(a *App, format string, value any, human func(w io.Writer) error) error {
	switch format {
	case formatJSON:
		return encodeJSON(a.Out, value, "  ")
	case formatJSONL:
		return encodeJSON(a.Out, value, "")
	case formatYAML:
		return encodeYAML(a.Out, value)
	default:
		return human(a.Out)
	}
}

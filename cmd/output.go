package cmd

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

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
	cell func(row T, r *cellStyle) string
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

// encodeJSON writes one value as JSON that no terminal acts on.
func encodeJSON(w io.Writer, value any, indent string) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err := w.Write(safetext.JSON([]byte(b.String())))
	return err
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

func encodeYAML(w io.Writer, value any) error {
	doc, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	// YAML has no escape outside quotes, so what a terminal would act on is shown instead.
	_, err = io.WriteString(w, safetext.Block(string(doc)))
	return err
}

type jsonList[T any] struct {
	out  io.Writer
	some bool
}

func (l *jsonList[T]) Write(row T) error {
	open := ",\n"
	if !l.some {
		open = "[\n"
	}
	l.some = true
	var b strings.Builder
	if err := encodeJSON(&b, row, "  "); err != nil {
		return err
	}
	body := strings.ReplaceAll(strings.TrimRight(b.String(), "\n"), "\n", "\n  ")
	_, err := io.WriteString(l.out, open+"  "+body)
	return err
}

func (l *jsonList[T]) Close() error {
	end := "\n]\n"
	if !l.some {
		end = "[]\n"
	}
	_, err := io.WriteString(l.out, end)
	return err
}

type jsonLines[T any] struct{ out io.Writer }

func (l *jsonLines[T]) Write(row T) error { return encodeJSON(l.out, row, "") }
func (l *jsonLines[T]) Close() error      { return nil }

type yamlList[T any] struct {
	out  io.Writer
	rows []T
}

func (l *yamlList[T]) Write(row T) error { l.rows = append(l.rows, row); return nil }
func (l *yamlList[T]) Close() error {
	if l.rows == nil {
		l.rows = []T{}
	}
	return encodeYAML(l.out, l.rows)
}

type idList[T any] struct {
	out  io.Writer
	view view[T]
}

func (l *idList[T]) Write(row T) error {
	_, err := fmt.Fprintln(l.out, safetext.Line(l.view.id(row)))
	return err
}
func (l *idList[T]) Close() error { return nil }

// separated is CSV, and on a pipe the table with tabs instead of blanks.
type separated[T any] struct {
	w     *csv.Writer
	view  view[T]
	r     *cellStyle
	clean func(string) string
	some  bool
}

func (s *separated[T]) head() error {
	if s.some {
		return nil
	}
	s.some = true
	heads := make([]string, len(s.view.columns))
	for i, c := range s.view.columns {
		heads[i] = c.head
	}
	return s.w.Write(heads)
}

func (s *separated[T]) Write(row T) error {
	if err := s.head(); err != nil {
		return err
	}
	cells := make([]string, len(s.view.columns))
	for i, c := range s.view.columns {
		cells[i] = s.clean(c.cell(row, s.r))
	}
	if err := s.w.Write(cells); err != nil {
		return err
	}
	s.w.Flush()
	return s.w.Error()
}

func (s *separated[T]) Close() error {
	if err := s.head(); err != nil {
		return err
	}
	s.w.Flush()
	return s.w.Error()
}

// table is the aligned form for a terminal.
type table[T any] struct {
	out   io.Writer
	view  view[T]
	r     *cellStyle
	width int
	rows  [][]string
}

func (t *table[T]) Write(row T) error {
	cells := make([]string, len(t.view.columns))
	for i, c := range t.view.columns {
		cells[i] = c.cell(row, t.r)
	}
	t.rows = append(t.rows, cells)
	return nil
}

func (t *table[T]) Close() error {
	heads := make([]string, len(t.view.columns))
	for i, c := range t.view.columns {
		heads[i] = strings.ToUpper(c.head)
	}
	fitWidth(heads, t.rows, t.width)
	grid := tablewriter.NewTable(t.out,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Lines: tw.LinesNone, Separators: tw.SeparatorsNone},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAlignment(tw.AlignLeft),
		tablewriter.WithRowAlignment(tw.AlignLeft),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithPadding(tw.Padding{Left: "", Right: "  ", Overwrite: true}),
	)
	grid.Header(heads)
	if err := grid.Bulk(t.rows); err != nil {
		return err
	}
	return grid.Render()
}

// fitWidth cuts the widest cells until every row fits the terminal; nothing shorter than 12 cells is cut.
func fitWidth(heads []string, rows [][]string, width int) {
	const least, gap = 12, 2
	if width <= 0 {
		return
	}
	widths := make([]int, len(heads))
	for i, h := range heads {
		widths[i] = ansi.StringWidth(h)
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	total := gap * len(heads)
	for _, w := range widths {
		total += w
	}
	for total > width {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= least {
			return
		}
		widths[widest]--
		total--
	}
	for _, row := range rows {
		for i := range row {
			row[i] = ansi.Truncate(row[i], widths[i], "…")
		}
	}
}

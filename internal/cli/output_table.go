package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// table is the aligned form for a terminal.
type table[T any] struct {
	out  io.Writer
	view View[T]
	r    *CellStyle
	// width is what the table must fit into; 0 cuts nothing and leaves nothing out.
	width int
	rows  []T
	cells [][]string
}

func (t *table[T]) Write(row T) error {
	t.rows = append(t.rows, row)
	return nil
}

func (t *table[T]) Close() error {
	if len(t.rows) == 0 {
		if t.view.Empty != "" {
			fmt.Fprintln(t.r.app.Err, t.view.Empty)
		}
		return nil
	}
	if t.view.Shorten != nil && t.width > 0 {
		var ids []string
		for _, row := range t.rows {
			ids = append(ids, t.view.IDs(row)...)
		}
		t.r.idLength = t.view.Shorten(ids)
	}
	for _, row := range t.rows {
		cells := make([]string, len(t.view.Columns))
		for i, c := range t.view.Columns {
			cells[i] = safetext.Line(c.Cell(row, t.r))
			if c.Style != nil {
				cells[i] = t.r.app.Paint(t.r.app.OutTTY, c.Style(row), cells[i])
			}
		}
		t.cells = append(t.cells, cells)
	}
	t.sayOnce()
	t.leaveOut()
	t.fitWidth()
	heads := make([]string, len(t.view.Columns))
	for i, c := range t.view.Columns {
		heads[i] = strings.ToUpper(c.Head)
	}
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
	if err := grid.Bulk(t.cells); err != nil {
		return err
	}
	return grid.Render()
}

// lines is a table whose rows are printed as they come: what stays is cut to the terminal's width.
type lines[T any] struct {
	app  *App
	view View[T]
	r    *CellStyle
}

// NewLineWriter prints rows on a terminal as they come.
func NewLineWriter[T any](a *App, v View[T]) ListWriter[T] {
	return &lines[T]{a, v, a.renderer()}
}

func (l *lines[T]) Write(row T) error {
	var cells []string
	for _, c := range l.view.Columns {
		if cell := safetext.Line(c.Cell(row, l.r)); !c.Wide && cell != "" {
			cells = append(cells, cell)
		}
	}
	line := strings.Join(cells, "  ")
	if l.app.Width > 0 {
		line = ansi.Truncate(line, l.app.Width, "…")
	}
	_, err := fmt.Fprintln(l.app.Out, line)
	return err
}

func (l *lines[T]) Close() error { return nil }

// sayOnce leaves out the columns that are the same in every row, and says on Err what they would repeat.
func (t *table[T]) sayOnce() {
	if len(t.cells) < 2 || t.width == 0 {
		return
	}
	var same []string
	for i := len(t.view.Columns) - 1; i >= 0; i-- {
		c, first := t.view.Columns[i], t.cells[0][i]
		if c.Always || slices.ContainsFunc(t.cells, func(row []string) bool { return row[i] != first }) {
			continue
		}
		if first != "" {
			same = append(same, c.Head+" "+first)
		}
		t.drop(i)
	}
	if slices.Reverse(same); same != nil {
		fmt.Fprintf(t.r.app.Err, "in every row: %s\n", ansi.Truncate(strings.Join(same, ", "), max(t.width-14, leastCell), "…"))
	}
}

func (t *table[T]) drop(column int) {
	t.view.Columns = slices.Delete(t.view.Columns, column, column+1)
	for i, row := range t.cells {
		t.cells[i] = slices.Delete(row, column, column+1)
	}
}

const (
	// tableGap is the room between two columns, leastCell what a cell that may be cut keeps where there is room at all.
	tableGap  = 2
	leastCell = 12
)

// leaveOut drops spare columns until the others fit the terminal, and names them on Err.
func (t *table[T]) leaveOut() {
	var left []string
	for t.width > 0 {
		least, spare := 0, -1
		for i, w := range t.widths() {
			c := t.view.Columns[i]
			if !c.Whole {
				w = min(w, leastCell)
			}
			least += w + tableGap
			if c.Spare > 0 && (spare < 0 || c.Spare < t.view.Columns[spare].Spare) {
				spare = i
			}
		}
		if least <= t.width || spare < 0 {
			break
		}
		left = append(left, t.view.Columns[spare].Head)
		t.drop(spare)
	}
	if left != nil {
		fmt.Fprintf(t.r.app.Err, "hidden columns: %s (-o wide shows all)\n", strings.Join(left, ", "))
	}
}

// widths are the columns' natural widths.
func (t *table[T]) widths() []int {
	widths := make([]int, len(t.view.Columns))
	for i, c := range t.view.Columns {
		widths[i] = ansi.StringWidth(c.Head)
	}
	for _, row := range t.cells {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	return widths
}

// fitWidth makes the widest cells narrower until every row fits the terminal; nothing shorter than 12 cells is touched,
// nor what must stay whole.
func (t *table[T]) fitWidth() {
	if t.width <= 0 {
		return
	}
	widths := t.widths()
	total := 0
	for _, w := range widths {
		total += w + tableGap
	}
	for total > t.width {
		widest := -1
		for i, w := range widths {
			if !t.view.Columns[i].Whole && w > leastCell && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	for _, row := range t.cells {
		for i := range row {
			if t.view.Columns[i].Wrap {
				row[i] = ansi.Wrap(row[i], widths[i], "")
			} else {
				row[i] = ansi.Truncate(row[i], widths[i], "…")
			}
		}
	}
}

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
	out   io.Writer
	view  View[T]
	r     *CellStyle
	width int
	rows  [][]string
}

func (t *table[T]) Write(row T) error {
	cells := make([]string, len(t.view.Columns))
	for i, c := range t.view.Columns {
		cells[i] = safetext.Line(c.Cell(row, t.r))
		if c.Style != nil {
			cells[i] = t.r.app.Paint(true, c.Style(row), cells[i])
		}
	}
	t.rows = append(t.rows, cells)
	return nil
}

func (t *table[T]) Close() error {
	t.leaveOut()
	heads := make([]string, len(t.view.Columns))
	for i, c := range t.view.Columns {
		heads[i] = strings.ToUpper(c.Head)
	}
	t.fitWidth()
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
		t.view.Columns = slices.Delete(t.view.Columns, spare, spare+1)
		for i, row := range t.rows {
			t.rows[i] = slices.Delete(row, spare, spare+1)
		}
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
	for _, row := range t.rows {
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
	for _, row := range t.rows {
		for i := range row {
			if t.view.Columns[i].Wrap {
				row[i] = ansi.Wrap(row[i], widths[i], "")
			} else {
				row[i] = ansi.Truncate(row[i], widths[i], "…")
			}
		}
	}
}

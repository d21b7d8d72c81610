package cli

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// DropWidths frees the tables' cache of widths, which takes 1.6 MiB in every process, also in those
// that print no table. It must be called before anything is printed.
func DropWidths() { twwidth.SetCacheCapacity(0) }

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
	if t.width > 0 {
		t.r.idLength = shortID
	}
	t.leaveOut()
	for _, row := range t.rows {
		cells := make([]string, len(t.view.Columns))
		for i, c := range t.view.Columns {
			cells[i] = safetext.Line(c.cell(row, t.r))
		}
		t.cells = append(t.cells, cells)
	}
	t.fitWidth()
	t.paint()
	heads := make([]string, len(t.view.Columns))
	for i, c := range t.view.Columns {
		heads[i] = strings.ToUpper(c.Head)
	}
	var page bytes.Buffer
	grid := tablewriter.NewTable(&page,
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
	if err := grid.Render(); err != nil {
		return err
	}
	for line := range strings.Lines(page.String()) {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func (t *table[T]) paint() {
	for i, c := range t.view.Columns {
		if c.Style == nil {
			continue
		}
		for n, row := range t.rows {
			t.cells[n][i] = t.r.app.Paint(t.r.app.OutTTY, c.Style(row), t.cells[n][i])
		}
	}
}

// lines is a table whose rows are printed as they come: a column is as wide as its widest cell so
// far, the one with Rest has the room that the others leave, and a line is cut to the terminal's
// width.
type lines[T any] struct {
	app    *App
	view   View[T]
	r      *CellStyle
	widths []int
}

// shortID is how much of an id a terminal shows: its millisecond and three digits more, which no
// other event of that millisecond is likely to have. Every command takes the beginning of an id, and
// names the candidates where several begin so.
const shortID = 18

// NewLineWriter prints rows on a terminal as they come.
func NewLineWriter[T any](a *App, v View[T]) ListWriter[T] {
	r := a.renderer()
	r.idLength = shortID
	return &lines[T]{a, v, r, make([]int, len(v.Columns))}
}

func (l *lines[T]) Write(row T) error {
	cells := make([]string, len(l.view.Columns))
	hidden := func(c Column[T]) bool { return c.Wide || l.app.Width > 0 && l.app.Width < c.From }
	taken, rest := -tableGap, -1
	for i, c := range l.view.Columns {
		if hidden(c) {
			continue
		}
		cells[i] = safetext.Line(c.cell(row, l.r))
		l.widths[i] = max(l.widths[i], ansi.StringWidth(cells[i]))
		if taken += tableGap; c.Rest {
			rest = i
		} else {
			taken += l.widths[i]
		}
	}
	if rest >= 0 && l.app.Width > 0 {
		l.widths[rest] = min(l.widths[rest], max(leastEver, l.app.Width-taken))
		cells[rest] = ansi.Truncate(cells[rest], l.widths[rest], "…")
	}
	var line strings.Builder
	for i, c := range l.view.Columns {
		if hidden(c) {
			continue
		}
		gap := l.widths[i] - ansi.StringWidth(cells[i]) + tableGap
		if c.Style != nil {
			cells[i] = l.app.Paint(l.app.OutTTY, c.Style(row), cells[i])
		}
		fmt.Fprintf(&line, "%s%*s", cells[i], gap, "")
	}
	text := strings.TrimRight(line.String(), " ")
	if l.app.Width > 0 {
		text = ansi.Truncate(text, l.app.Width, "…")
	}
	_, err := fmt.Fprintln(l.app.Out, text)
	return err
}

func (l *lines[T]) Close() error { return nil }

const (
	// tableGap is the room between two columns.
	tableGap = 2
	// leastCell is how much of a cell is shown while others can be made narrower, leastRest how
	// much of one that gets what room there is, and leastEver of any on a very small terminal.
	leastCell, leastRest, leastEver = 18, 26, 8
)

// leaveOut drops the columns that a terminal of this width has no room for, and names them on Err.
func (t *table[T]) leaveOut() {
	tooWide := func(c Column[T]) bool { return t.width > 0 && t.width < c.From }
	var left []string
	for _, c := range t.view.Columns {
		if tooWide(c) {
			left = append(left, c.Head)
		}
	}
	t.view.Columns = slices.DeleteFunc(slices.Clone(t.view.Columns), tooWide)
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

// fitWidth makes cells narrower until every row fits the terminal: first those of the column that
// has the room that the others leave, then all down to their least, and on a very small terminal
// below that.
func (t *table[T]) fitWidth() {
	if t.width <= 0 {
		return
	}
	widths := t.widths()
	over := -tableGap - t.width
	for _, w := range widths {
		over += w + tableGap
	}
	for _, floor := range []func(c Column[T]) int{
		func(c Column[T]) int { return c.least(math.MaxInt, leastRest) },
		func(c Column[T]) int { return c.least(leastCell, leastRest) },
		func(c Column[T]) int { return c.least(leastEver, leastEver) },
	} {
		for ; over > 0; over-- {
			widest := -1
			for i, w := range widths {
				if w > floor(t.view.Columns[i]) && (widest < 0 || w > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
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

package cmd

import (
	"io"
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
	view  view[T]
	r     *cellStyle
	width int
	rows  [][]string
}

func (t *table[T]) Write(row T) error {
	cells := make([]string, len(t.view.columns))
	for i, c := range t.view.columns {
		cells[i] = safetext.Line(c.cell(row, t.r))
		if c.style != nil {
			cells[i] = t.r.app.paint(true, c.style(row), cells[i])
		}
	}
	t.rows = append(t.rows, cells)
	return nil
}

func (t *table[T]) Close() error {
	heads := make([]string, len(t.view.columns))
	whole := make([]bool, len(t.view.columns))
	for i, c := range t.view.columns {
		heads[i], whole[i] = strings.ToUpper(c.head), c.whole
	}
	fitWidth(heads, whole, t.rows, t.width)
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

// fitWidth cuts the widest cells until every row fits the terminal; nothing shorter than 12 cells is cut, nor what must
// stay whole.
func fitWidth(heads []string, whole []bool, rows [][]string, width int) {
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
		widest := -1
		for i, w := range widths {
			if !whole[i] && w > least && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
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

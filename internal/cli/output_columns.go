package cli

import (
	"slices"
	"strconv"
	"strings"
)

// ColumnList is the columns of a list, in their order.
type ColumnList[T any] []Column[T]

// Columns reads columns from a text: heads separated by commas, each with = and the JSON keys it
// stands for where those are others, and with its marks behind colons: wide, whole, id, rest, wrap,
// or the width of the terminal from which it is shown. "id:id, failed=failedAt:70, topic:wide".
func Columns[T any](text string) (list ColumnList[T]) {
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Split(strings.TrimSpace(part), ":")
		var c Column[T]
		c.Head, c.Field, _ = strings.Cut(words[0], "=")
		for _, mark := range words[1:] {
			switch mark {
			case "wide":
				c.Wide = true
			case "whole":
				c.Whole = true
			case "id":
				c.ID = true
			case "rest":
				c.Rest = true
			case "wrap":
				c.Wrap = true
			default:
				from, err := strconv.Atoi(mark)
				Must(err)
				c.From = from
			}
		}
		list = append(list, c)
	}
	return list
}

// Cell gives the column with this head a cell of its own.
func (l ColumnList[T]) Cell(head string, cell func(row T) string) ColumnList[T] {
	return l.CellFor(head, func(row T, _ *CellStyle) string { return cell(row) })
}

// CellFor is Cell for one that differs between a person and a pipe.
func (l ColumnList[T]) CellFor(head string, cell func(row T, s *CellStyle) string) ColumnList[T] {
	l[l.at(head)].Cell = cell
	return l
}

// Style gives the column with this head a colour.
func (l ColumnList[T]) Style(head string, style func(row T) Style) ColumnList[T] {
	l[l.at(head)].Style = style
	return l
}

func (l ColumnList[T]) at(head string) int {
	return slices.IndexFunc(l, func(c Column[T]) bool { return c.Head == head })
}

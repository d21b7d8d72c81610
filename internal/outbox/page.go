package outbox

import (
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// Page is a part of a list.
type Page struct {
	// Limit is how many rows the part has; 0: all of them.
	Limit int
	// Cursor is the row after which it starts, as Paged.Next names it; empty starts at the beginning.
	Cursor string
	// LookAt is how many rows are looked at one by one for those that match; 0: as many as it takes.
	LookAt int
	// LookFor is how long, beside LookAt; 0: as long as it takes.
	LookFor time.Duration
}

// Paged is where a list goes on.
type Paged struct {
	// Next is the cursor of the next part; empty when there are no more rows.
	Next string
	// Looked is after how many rows LookAt or LookFor cut the search short: Next goes on from there,
	// whatever was found. 0: it was not.
	Looked int
}

// readAtOnce is how many rows of a list are read by one statement, so that memory does not grow
// with the list.
const readAtOnce = 1000

// CheckLimit reports what is wrong with the limit.
func (p Page) CheckLimit() error {
	if p.Limit < 0 {
		return fault.Usagef("the limit must not be negative")
	}
	return nil
}

// CheckCursor is CheckLimit for lists whose rows have ids, and makes the cursor canonical.
func (p *Page) CheckCursor() (err error) {
	if p.Cursor != "" {
		if p.Cursor, err = ParseID(p.Cursor); err != nil {
			return err
		}
	}
	return p.CheckLimit()
}

// ReadPages passes up to limit rows (0: all) to each. It returns the last of them and whether there
// are more.
func ReadPages[T any](limit int, each func(T) error, read func(n int) ([]T, error)) (last T,
	more bool, err error) {
	for done := 0; ; {
		want := readAtOnce
		if limit > 0 {
			want = min(readAtOnce-1, limit-done) + 1 // one more than asked for tells whether there are more
		}
		rows, err := read(want)
		if err != nil {
			return last, false, err
		}
		for _, row := range rows {
			if limit > 0 && done == limit {
				return last, true, nil
			}
			if err := each(row); err != nil {
				return last, false, err
			}
			last = row
			done++
		}
		if len(rows) < want {
			return last, false, nil
		}
	}
}

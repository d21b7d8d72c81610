package ui

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

const (
	defaultRows = 50
	mostRows    = 1000
	// searchRows and searchTime limit one request that looks for an error; the next goes on.
	searchRows = 100_000
	searchTime = time.Second
)

// deadLetterQuery and eventQuery are the lists without a filter.
func deadLetterQuery() *outbox.Query { return &outbox.Query{State: dlq.StateOpen} }
func eventQuery() *outbox.Query      { return &outbox.Query{Status: outbox.AllStates} }

// deadLetterNames and eventNames are the filters of the lists: the names of the flags.
func deadLetterNames() []string { return deadLetterQuery().FieldNames() }
func eventNames() []string      { return eventQuery().FieldNames() }

// listNames are the names that the query of a list with these filters may have.
func listNames(filters []string) []string { return append(filters, "limit", "cursor") }

// known refuses a name that nothing reads.
func known(q url.Values, names ...string) error {
	for name := range q {
		if !slices.Contains(names, name) {
			return fault.Usagef("%q is no filter of this list: it knows %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// given refuses a filter without a value: a variable that was not set would widen the set. Pages
// leave out the empty fields of a form before they ask for a list.
func given(q url.Values, except ...string) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(except, name) && (len(q[name]) == 0 || len(values(q, name)) < len(q[name])) {
			return fault.Usagef("%s must not be empty", name)
		}
	}
	return nil
}

// values are the words given for a name, without those that were left empty.
func values(q url.Values, name string) []string {
	return slices.DeleteFunc(slices.Clone(q[name]), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// one is the last word given for a name.
func one(q url.Values, name, absent string) string {
	if v := values(q, name); len(v) > 0 {
		return v[len(v)-1]
	}
	return absent
}

func readPage(q url.Values) (outbox.Page, error) {
	p := outbox.Page{Limit: defaultRows, Cursor: one(q, "cursor", "")}
	if text := one(q, "limit", ""); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostRows {
			return p, fault.Usagef("limit: %q is not a number from 1 to %d", text, mostRows)
		}
		p.Limit = n
	}
	return p, nil
}

// deadLetterFilter and eventFilter read the filters of the lists. now is the database's clock.
func deadLetterFilter(q url.Values, now time.Time) (outbox.Filter, error) {
	return readFilter(deadLetterQuery(), q, now)
}

func eventFilter(q url.Values, now time.Time) (outbox.Filter, error) {
	return readFilter(eventQuery(), q, now)
}

func readFilter(query *outbox.Query, q url.Values, now time.Time) (outbox.Filter, error) {
	if err := query.Read(q); err != nil {
		return outbox.Filter{}, err
	}
	return query.Filter(now)
}

// tidy is the query without empty fields, in a fixed order.
func tidy(q url.Values) string {
	clean := url.Values{}
	for name := range q {
		if v := values(q, name); len(v) > 0 {
			clean[name] = v
		}
	}
	return clean.Encode()
}

// with is the query with one value changed, or removed if empty, and from the first page on.
func with(q url.Values, name, value string) string {
	changed := url.Values{}
	for k, v := range q {
		if k != name && k != "cursor" {
			changed[k] = v
		}
	}
	if value != "" {
		changed.Set(name, value)
	}
	return changed.Encode()
}

// command is the command line that shows the same: the filters are its flags.
func command(words string, q url.Values, filters []string) string {
	for _, name := range listNames(filters) {
		for _, v := range values(q, name) {
			switch {
			case name == "cursor" && v != one(q, name, ""): // of a page before
			case name != "blocking":
				words += " --" + name + " " + safetext.QuoteWord(v)
			case v == "true": // a flag without a value
				words += " --" + name
			}
		}
	}
	return words
}

// list reads one part of a list. parse reads its filters at the database's time, and read passes
// the rows that they select.
func list[F, T any](
	r *request, parse func(url.Values, time.Time) (F, error), read func(F, outbox.Page, func(T) error) (outbox.Paged, error),
) (rows []T, paged outbox.Paged, err error) {
	q := r.URL.Query()
	if err := given(q, "limit", "cursor"); err != nil {
		return nil, paged, err
	}
	page, err := readPage(q)
	if err != nil {
		return nil, paged, err
	}
	filter, err := parse(q, r.now)
	if err != nil {
		return nil, paged, err
	}
	paged, err = read(filter, page, func(row T) error { rows = append(rows, row); return nil })
	return rows, paged, err
}

// fixed is the address of a list that shows the same rows tomorrow: a time such as 2h ago becomes an
// instant.
func fixed(path string, q url.Values, since, until time.Time) string {
	same := url.Values{}
	for name, v := range q {
		if name != "cursor" {
			same[name] = v
		}
	}
	for name, at := range map[string]time.Time{"since": since, "until": until} {
		if !at.IsZero() {
			same.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return path + "?" + same.Encode()
}

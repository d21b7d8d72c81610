package ui

import (
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// maxBody is the largest form: some twenty thousand ids.
const maxBody = 1 << 20

// readForm reads the form of a request. A field that nothing reads is refused: a typing error must
// not widen a set.
func readForm(r *http.Request, takes []string) error {
	const want = "application/x-www-form-urlencoded"
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != want {
		return statusError{http.StatusUnsupportedMediaType, fault.Usagef("the request needs Content-Type: %s", want)}
	}
	if err := r.ParseForm(); err != nil {
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return statusError{http.StatusRequestEntityTooLarge, fault.Usagef("the request is larger than %d bytes", large.Limit)}
		}
		return fault.Usagef("the request cannot be read: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		outer, _, nested := strings.Cut(name, ".")
		switch {
		case nested && slices.Contains(takes, outer+"."): // a filter, whose names are checked as it is read
		case !slices.Contains(takes, name):
			return fault.Usagef("the request cannot be read: %q is no field of this form", name)
		case len(r.PostForm[name]) > 1 && name != "ids":
			return fault.Usagef("%s: takes one value", name)
		}
	}
	return nil
}

// field is what was typed into a field.
func (r *request) field(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }

// ticked reports whether a box is ticked.
func (r *request) ticked(name string) (bool, error) {
	switch word := r.field(name); word {
	case "1", "":
		return word == "1", nil
	default:
		return false, fault.Usagef("%s: %q is not 1", name, word)
	}
}

// number reads a number by the rule for its kind; an empty one is 0.
func (r *request) number(name string, parse func(string) (float64, error)) (float64, error) {
	text := r.field(name)
	if text == "" {
		return 0, nil
	}
	n, err := parse(text)
	if err != nil {
		return 0, fault.Usagef("%s: %w", name, err)
	}
	return n, nil
}

// chosen reads what a plan is to be made of: ids, or a filter that has the names of the flags. now is
// the database's clock.
func (r *request) chosen(now time.Time) (dlq.ChangeParams, error) {
	out := dlq.ChangeParams{IDs: slices.Clone(r.PostForm["ids"]), Actor: r.who.Name, Note: r.field("note")}
	var err error
	if out.Action, err = actionOf(r.field("action")); err != nil {
		return out, err
	}
	for i, text := range out.IDs {
		if out.IDs[i], err = outbox.ParseID(text); err != nil {
			return out, err
		}
	}
	slices.Sort(out.IDs)
	out.IDs = slices.Compact(out.IDs)
	filter := url.Values{}
	for name, v := range r.PostForm {
		if inner, ok := strings.CutPrefix(name, "filter."); ok {
			filter[inner] = v
		}
	}
	if len(filter) > 0 && out.IDs == nil {
		if err := choose(filter, now, &out); err != nil {
			return out, err
		}
	}
	if out.Check() != nil || len(filter) > 0 && out.IDs != nil {
		return out, fault.Usagef("specify ids or a filter, one of them")
	}
	return out, nil
}

// choose reads a filter into the params. The action decides on the state, so none is chosen.
func choose(q url.Values, now time.Time, out *dlq.ChangeParams) error {
	if err := given(q); err != nil {
		return err
	}
	query, into := &outbox.Query{State: out.Action.State()}, &out.DeadLetters
	if out.Action.OnEvents() {
		query, into = &outbox.Query{Status: out.Action.State()}, &out.Events
	}
	var names []string
	for _, f := range query.Fields() {
		if f.Choices != nil {
			continue
		}
		names = append(names, f.Name)
		if _, several := f.At.(*[]string); !several && len(q[f.Name]) > 1 {
			return fault.Usagef("filter: %s: takes one value", f.Name)
		}
	}
	if err := known(q, names...); err != nil {
		return err
	}
	f, err := readFilter(query, q, now)
	if err == nil && !f.Narrows() { // a caller that gives none has not said what to change
		err = fault.Usagef("the filter leaves nothing out: specify the rows")
	}
	*into = &f
	return err
}

func actionOf(word string) (dlq.Action, error) {
	for _, a := range planned() {
		if word == a.Verb() {
			return a, nil
		}
	}
	return "", fault.Usagef("action: %q is none of replay, discard, restore, republish, retry", word)
}

// confirmation reads what was said of the plan. A count is taken as people write it: 9,031.
func (r *request) confirmation() (out dlq.Confirmation, err error) {
	out = dlq.Confirmation{Database: r.field("confirm.database"), Note: r.field("note")}
	if typed := strings.NewReplacer(",", "", " ", "", ".", "", "\u00a0", "").Replace(r.field("confirm.count")); typed != "" {
		if out.Count, err = strconv.ParseInt(typed, 10, 64); err != nil {
			return out, fault.Usagef("count: %q is not a number", r.field("confirm.count"))
		}
	}
	out.Force, err = r.ticked("force")
	return out, err
}

// pace reads how fast a run goes, in rows per second, and when it stops by itself; watch is nil
// without steps.
func (r *request) pace() (rate float64, watch *dlq.Watch, err error) {
	if rate, err = r.number("rate", words.ParseRate); err != nil {
		return 0, nil, err
	}
	ramp, err := r.ticked("ramp")
	if err != nil {
		return 0, nil, err
	}
	w := dlq.DefaultWatch()
	if r.field("abortIfDead") != "" {
		ramp = true
		if w.MaxDead, err = r.number("abortIfDead", words.ParseShare); err != nil {
			return 0, nil, err
		}
	}
	if !ramp {
		return rate, nil, nil
	}
	return rate, &w, nil
}

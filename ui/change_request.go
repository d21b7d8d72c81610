package ui

import (
	"encoding/json"
	"errors"
	"io"
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
)

const (
	// maxBody is the largest body: some twenty thousand ids.
	maxBody = 1 << 20
	// maxWatch is the longest that a watched run waits for the outcome of a step.
	maxWatch = time.Hour
)

// planRequest asks for a plan.
type planRequest struct {
	Action string   `json:"action"`
	IDs    []string `json:"ids"`
	Filter filter   `json:"filter"`
	Note   string   `json:"note"`
}

// filter is the filter of a list, by the names of the flags: a value, or several that are alternatives.
type filter url.Values

// UnmarshalJSON implements json.Unmarshaler.
func (f *filter) UnmarshalJSON(doc []byte) error {
	var given map[string]any
	if err := json.Unmarshal(doc, &given); err != nil {
		return err
	}
	*f = filter{}
	for name, value := range given {
		switch v := value.(type) {
		case string:
			(*f)[name] = []string{v}
		case []any:
			(*f)[name] = []string{} // a list of none is given, too
			for _, one := range v {
				text, ok := one.(string)
				if !ok {
					return fault.Usagef("filter: %s: must be text, or a list of texts", name)
				}
				(*f)[name] = append((*f)[name], text)
			}
		default:
			return fault.Usagef("filter: %s: must be text, or a list of texts", name)
		}
	}
	return nil
}

// params reads the request. now is the database's clock.
func (p planRequest) params(now time.Time, actor string) (dlq.ChangeParams, error) {
	out := dlq.ChangeParams{IDs: p.IDs, Actor: actor, Note: strings.TrimSpace(p.Note)}
	var err error
	if out.Action, err = actionOf(p.Action); err != nil {
		return out, err
	}
	for i, text := range out.IDs {
		if out.IDs[i], err = outbox.ParseID(text); err != nil {
			return out, err
		}
	}
	slices.Sort(out.IDs)
	out.IDs = slices.Compact(out.IDs)
	if q := url.Values(p.Filter); len(q) > 0 {
		if p.IDs != nil {
			return out, fault.Usagef("specify ids or a filter, one of them")
		}
		if err := choose(q, now, &out); err != nil {
			return out, err
		}
	}
	if out.Check() != nil {
		return out, fault.Usagef("specify ids or a filter, one of them")
	}
	return out, nil
}

// choose reads a filter into the params.
func choose(q url.Values, now time.Time, out *dlq.ChangeParams) error {
	if err := given(q); err != nil {
		return err
	}
	for _, name := range []string{"aggregate", "since", "until", "error-like", "blocking"} {
		if len(q[name]) > 1 {
			return fault.Usagef("filter: %s: takes one value", name)
		}
	}
	state := out.Action.State()
	if out.Action.OnEvents() {
		names := slices.DeleteFunc(eventNames(), func(name string) bool { return name == "status" })
		if err := known(q, names...); err != nil {
			return err
		}
		f, err := eventFilter(withOne(q, "status", state), now)
		out.Events = &f
		return orEverything(f.Narrows(), err)
	}
	names := slices.DeleteFunc(deadLetterNames(), func(name string) bool { return name == "state" })
	if err := known(q, names...); err != nil {
		return err
	}
	f, err := deadLetterFilter(withOne(q, "state", state), now)
	out.DeadLetters = &f
	return orEverything(f.Narrows(), err)
}

// orEverything refuses a filter that leaves nothing out: a caller that gives none has not said what to change.
func orEverything(narrows bool, err error) error {
	if err == nil && !narrows {
		return fault.Usagef("the filter leaves nothing out: specify the rows")
	}
	return err
}

func withOne(q url.Values, name, value string) url.Values {
	out := url.Values{name: {value}}
	for k, v := range q {
		out[k] = v
	}
	return out
}

// actionOf reads an action: replay, or dlq.replay as the audit has it.
func actionOf(word string) (dlq.Action, error) {
	for _, a := range planned() {
		if word == a.Verb() || word == string(a) {
			return a, nil
		}
	}
	return "", fault.Usagef("action: %q is none of replay, discard, restore, republish", word)
}

// runRequest asks for a plan to be run.
type runRequest struct {
	Confirm struct {
		Count    int64  `json:"count"`
		Database string `json:"database"`
	} `json:"confirm"`
	Note  string `json:"note"`
	Force bool   `json:"force"`
	pace
}

// pace is how fast a run goes, and when it stops by itself.
type pace struct {
	// Rate is in rows per second.
	Rate         float64  `json:"rate"`
	Ramp         bool     `json:"ramp"`
	AbortIfDead  *float64 `json:"abortIfDead"`
	WatchSeconds float64  `json:"watchSeconds"`
}

func (p pace) watch() *dlq.Watch {
	if !p.Ramp && p.AbortIfDead == nil {
		return nil
	}
	w := dlq.DefaultWatch()
	if p.AbortIfDead != nil {
		w.MaxDead = *p.AbortIfDead
	}
	if p.WatchSeconds > 0 {
		w.For = time.Duration(p.WatchSeconds * float64(time.Second))
	}
	return &w
}

func (p pace) check() error {
	switch {
	case p.Rate < 0 || p.Rate > 1e9:
		return fault.Usagef("rate: must be rows per second, such as 200")
	case p.AbortIfDead != nil && (*p.AbortIfDead < 0 || *p.AbortIfDead > 1):
		return fault.Usagef("abortIfDead: must be a share from 0 to 1")
	case p.WatchSeconds < 0 || p.WatchSeconds > maxWatch.Seconds():
		return fault.Usagef("watchSeconds: must be 0 to %.0f", maxWatch.Seconds())
	}
	return nil
}

// readJSON reads the body of an API request: one JSON document, and no field that is not read.
func readJSON(r *http.Request, into any) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return statusError{http.StatusUnsupportedMediaType, fault.Usagef("say Content-Type: application/json")}
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil && decoder.More() {
		err = errors.New("it has more than one document")
	}
	return bodyError(err)
}

// readForm reads a page's form. A field that is not among the names is refused: a typing error must not widen a set.
func readForm(r *http.Request, names ...string) (url.Values, error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return nil, statusError{http.StatusUnsupportedMediaType, fault.Usagef("forms of this page are sent as application/x-www-form-urlencoded")}
	}
	if err := r.ParseForm(); err != nil {
		return nil, bodyError(err)
	}
	for name := range r.PostForm {
		if !slices.Contains(names, name) {
			return nil, fault.Usagef("%q is no field of this form", name)
		}
	}
	return r.PostForm, nil
}

func bodyError(err error) error {
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return statusError{http.StatusRequestEntityTooLarge, fault.Usagef("the request is larger than %d bytes", large.Limit)}
	case errors.Is(err, io.EOF):
		return fault.Usagef("the request has no body")
	default:
		return fault.Usagef("the request cannot be read: %w", err)
	}
}

// planForm reads the form that asks for a plan: ticked ids, or all that match the filter.
func planForm(r *http.Request) (p planRequest, err error) {
	own := []string{"action", "id", "note", "all"}
	form, err := readForm(r, slices.Concat(deadLetterNames(), eventNames(), own)...)
	if err != nil {
		return p, err
	}
	p = planRequest{Action: form.Get("action"), IDs: form["id"], Note: form.Get("note")}
	if form.Get("all") == "" {
		if len(p.IDs) == 0 {
			return p, fault.Usagef("no row is ticked")
		}
		return p, nil
	}
	p.Filter = filter{}
	for name, v := range form {
		if !slices.Contains(own, name) {
			p.Filter[name] = v
		}
	}
	return p, nil
}

// runForm reads the form that confirms a plan. What was typed is taken as people write numbers: 9,031.
func runForm(r *http.Request) (p runRequest, err error) {
	form, err := readForm(r, "count", "database", "note", "force", "rate", "ramp", "abort")
	if err != nil {
		return p, err
	}
	typed := strings.NewReplacer(",", "", " ", "", ".", "", "\u00a0", "").Replace(form.Get("count"))
	if p.Confirm.Count, err = strconv.ParseInt(typed, 10, 64); err != nil && typed != "" {
		return p, fault.Usagef("count: %q is not a number", form.Get("count"))
	}
	p.Confirm.Database, p.Note, p.Force = form.Get("database"), form.Get("note"), form.Get("force") != ""
	p.pace, err = paceForm(form)
	return p, err
}

func paceForm(form url.Values) (p pace, err error) {
	p.Ramp = form.Get("ramp") != ""
	if text := strings.TrimSuffix(strings.TrimSpace(form.Get("rate")), "/s"); text != "" {
		if p.Rate, err = strconv.ParseFloat(text, 64); err != nil || !(p.Rate > 0) {
			return p, fault.Usagef("rate: %q is not a number of rows per second, such as 200", text)
		}
	}
	if text := strings.TrimSuffix(strings.TrimSpace(form.Get("abort")), "%"); text != "" && p.Ramp {
		share, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return p, fault.Usagef("abort share: %q is not a share in percent, such as 5", text)
		}
		share /= 100
		p.AbortIfDead = &share
	}
	return p, p.check()
}

package ui

import (
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

// maxWatch is the longest that a watched run waits for the outcome of a step.
const maxWatch = time.Hour

// planRequest asks for a plan. Filter has the names of the flags.
type planRequest struct {
	Action string           `json:"action"`
	IDs    texts            `json:"ids"`
	Filter map[string]texts `json:"filter"`
	Note   string           `json:"note"`
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
	if len(p.Filter) > 0 && p.IDs == nil {
		q := url.Values{}
		for name, v := range p.Filter {
			q[name] = v
		}
		if err := choose(q, now, &out); err != nil {
			return out, err
		}
	}
	if out.Check() != nil || len(p.Filter) > 0 && p.IDs != nil {
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

// actionOf reads an action: replay, or dlq.replay as the audit has it.
func actionOf(word string) (dlq.Action, error) {
	for _, a := range planned() {
		if word == a.Verb() || word == string(a) {
			return a, nil
		}
	}
	return "", fault.Usagef("action: %q is none of replay, discard, restore, republish, retry", word)
}

type runRequest struct {
	Confirm struct {
		Count    word   `json:"count"`
		Database string `json:"database"`
	} `json:"confirm"`
	Note  string `json:"note"`
	Force word   `json:"force"`
	// Rate is in rows per second: 200, 200/s, 30/m.
	Rate         word `json:"rate"`
	Ramp         word `json:"ramp"`
	AbortIfDead  word `json:"abortIfDead"`
	WatchSeconds word `json:"watchSeconds"`
}

// confirmation reads what was said of the plan. A count is taken as people write it: 9,031.
func (p runRequest) confirmation() (out dlq.Confirmation, err error) {
	out = dlq.Confirmation{Database: p.Confirm.Database, Note: p.Note}
	if typed := strings.NewReplacer(",", "", " ", "", ".", "", "\u00a0", "").Replace(string(p.Confirm.Count)); typed != "" {
		if out.Count, err = strconv.ParseInt(typed, 10, 64); err != nil {
			return out, fault.Usagef("count: %q is not a number", p.Confirm.Count)
		}
	}
	out.Force, err = p.Force.yes("force")
	return out, err
}

// pace reads how fast a run goes, and when it stops by itself; watch is nil without steps.
func (p runRequest) pace() (rate float64, watch *dlq.Watch, err error) {
	if rate, err = p.Rate.number("rate", words.ParseRate); err != nil {
		return 0, nil, err
	}
	w := dlq.DefaultWatch()
	ramp, err := p.Ramp.yes("ramp")
	if err == nil && p.AbortIfDead != "" {
		ramp = true
		w.MaxDead, err = p.AbortIfDead.number("abortIfDead", words.ParseShare)
	}
	if err == nil && p.WatchSeconds != "" {
		seconds, parseErr := strconv.ParseFloat(string(p.WatchSeconds), 64)
		if w.For = time.Duration(seconds * float64(time.Second)); parseErr != nil || !(seconds > 0) || seconds > maxWatch.Seconds() {
			err = fault.Usagef("watchSeconds: %q is not a number of seconds up to %.0f", p.WatchSeconds, maxWatch.Seconds())
		}
	}
	if err != nil || !ramp {
		return rate, nil, err
	}
	return rate, &w, nil
}

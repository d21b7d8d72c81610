package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/words"
)

// runPoll is how often an open page asks for a run that is at work.
const runPoll = time.Second

// planned is the actions that a plan can be made for.
func planned() []dlq.Action {
	return []dlq.Action{dlq.Replay, dlq.Discard, dlq.Restore, dlq.Republish, dlq.Retry}
}

// verbsOf is what can be done to something in this state.
func verbsOf(state string) (verbs []string) {
	for _, a := range planned() {
		if a.State() == state {
			verbs = append(verbs, a.Verb())
		}
	}
	return verbs
}

type counted struct {
	Name  string
	Count int64
}

// ranked orders counts, the largest first.
func ranked(counts map[string]int64) []counted {
	var out []counted
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, counted{name, counts[name]})
	}
	slices.SortStableFunc(out, func(a, b counted) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// changeable is what can be done to the rows of a list.
type changeable struct {
	Changes []string
	// Hidden is the filter of all that match, without what dies after the list was read.
	Hidden []field
}

type field struct{ Name, Value string }

// offer offers changes to the rows of a list that was read now. A time such as 2h ago becomes an
// instant: the set must be the one that is looked at.
func (d *listData) offer(state string, now time.Time) {
	d.Changes = verbsOf(state)
	until := d.until
	if until.IsZero() || until.After(now) {
		until = now
	}
	for _, c := range d.Chips {
		if c.Name != "since" && c.Name != "until" {
			d.Hidden = append(d.Hidden, field{c.Name, c.Value})
		}
	}
	if !d.since.IsZero() {
		d.Hidden = append(d.Hidden, field{"since", d.since.UTC().Format(time.RFC3339Nano)})
	}
	d.Hidden = append(d.Hidden, field{"until", until.UTC().Format(time.RFC3339Nano)})
}

// planData is a plan before it is run.
type planData struct {
	dlq.PlanPreview
	Plan dlq.PlanDetail
	// Typed: the count has to be typed. Sends: the change sends events, so it can go in steps.
	Typed, Sends bool
	// One: it is one row that was chosen by its id, which needs no breakdown.
	One         bool
	NoPublisher bool
	// Hopeless describes which of the set would fail again unchanged.
	Hopeless string
}

func planPage(r *request) (*view, error) {
	preview, err := r.outbox.PreviewPlan(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if preview.StartedAt != nil {
		return runView(r, preview.PlanDetail), nil
	}
	d := planData{PlanPreview: preview, Plan: preview.PlanDetail, Typed: dlq.Typed(preview.Plan), Sends: preview.Action.Sends()}
	if s := r.snapshot.Stats; d.Sends && s != nil {
		d.NoPublisher = len(s.Publishers) == 0
	}
	d.One = preview.Total == 1 && !preview.Filtered() && preview.State == dlq.PlanReady && len(preview.LeftOut) == 0
	if preview.Action == dlq.Replay {
		if err := dlq.RefuseHopeless(preview.Plan); err != nil {
			d.Hopeless = err.Error()
		}
	} else {
		d.MarksError = ""
	}
	return &view{Title: "Plan", Command: "outboxctl plan run " + preview.ID, Live: preview.State == dlq.PlanMaking, Every: runPoll.Milliseconds(), template: "plan", Data: d}, nil
}

// runData is a plan that was started.
type runData struct {
	Plan dlq.PlanDetail
	// Left is how many rows are not done; Speed is how fast it goes, in words.
	Left  int64
	Speed string
	// Sends and Typed are as in a plan. Ended: nothing more happens unless an operator resumes it.
	Sends, Ended, Typed bool
	// State is the plan's, or stopping. Undo: what it did can be taken back. Other is who confirmed it
	// before the viewer did.
	State, Other string
	Undo         bool
}

// stopping is the state of a run that was asked to stop and has not ended yet.
const stopping = "stopping"

// confirmedBefore asks for the page of a run that another operator confirmed before.
const confirmedBefore = "confirmed"

func runView(r *request, plan dlq.PlanDetail) *view {
	d := runData{Plan: plan, Left: plan.Total - plan.Done, Sends: plan.Action.Sends(), Ended: plan.State != dlq.PlanRunning, Typed: dlq.Typed(plan.Plan)}
	if d.State = plan.State; plan.State == dlq.PlanRunning && plan.StopBy != "" {
		d.State = stopping
	}
	if r.URL.Query().Has(confirmedBefore) && plan.Runner != r.who.Name {
		d.Other = plan.Runner
	}
	d.Undo = d.Ended && plan.Counts[plan.Action.Success()] > 0 && dlq.AuditRun{Action: string(plan.Action)}.CannotUndo() == nil
	if seconds := r.now.Sub(*plan.StartedAt).Seconds(); !d.Ended && plan.Done > 0 && seconds > 1 {
		perSecond := float64(plan.Done) / seconds
		d.Speed = strings.TrimSpace(fmt.Sprintf("%.0f/s, about %s left", perSecond, words.Seconds(float64(d.Left)/perSecond)))
	}
	command := "outboxctl plan show " + plan.ID
	if d.Ended && d.Left > 0 {
		command = "outboxctl plan run " + plan.ID
	}
	return &view{Title: "Plan", Command: command, Live: !d.Ended, Every: runPoll.Milliseconds(), template: "run", Data: d}
}

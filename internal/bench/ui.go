package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/wait"
)

// The criteria of the web page, with a million dead letters among five million rows on two processors.
const (
	maxPageP95      = 150.0 // milliseconds
	maxUnchangedP95 = 5.0
	minBesidePage   = 0.97 // of the rate without
	maxPageMiB      = 100.0
)

const (
	// viewers is how many look at the page during the drain, each asking as often as an open page does.
	viewers = 20
	// pageRequests is how often each address is asked for.
	pageRequests = 40
	// deadShare is the part of the rows behind that are dead.
	deadShare = 5
)

// Viewing is what mode ui has besides a drain.
type Viewing struct {
	// DeadLetters are open, beside all rows that the report calls head.
	DeadLetters int `json:"deadLetters"`
	Viewers     int `json:"viewers"`
	// Pages are what was asked for, without a drain beside.
	Pages []PageCost `json:"pages"`
	// Unchanged is an open page that asks whether something changed when nothing has.
	Unchanged PageCost `json:"unchanged"`
	// SnapshotSeconds is what the shared figures took; they are taken twenty times as seldom.
	SnapshotSeconds float64 `json:"snapshotSeconds"`
	// AloneEventsPerSecond is the drain while no page is open.
	AloneEventsPerSecond float64 `json:"aloneEventsPerSecond"`
	// ViewerRequests were made during the other drain, of which ViewerErrors were not answered.
	ViewerRequests int64 `json:"viewerRequests"`
	ViewerErrors   int64 `json:"viewerErrors"`
}

// PageCost is what one address costs.
type PageCost struct {
	Address  string      `json:"address"`
	Status   int         `json:"status"`
	Bytes    int         `json:"bytes"`
	P95      float64     `json:"p95Ms"`
	Duration Percentiles `json:"duration"`
}

// ui measures the web page over many rows, and a drain beside those who look at it.
func (s *session) ui(ctx context.Context) (*Report, error) {
	p := s.params
	return s.with(ctx, p, func(r *run) (_ *Report, err error) {
		report, v := r.newReport(), &Viewing{DeadLetters: p.Head / deadShare, Viewers: viewers}
		report.UI = v
		if err := r.fillForPage(ctx, p.Head, v.DeadLetters); err != nil {
			return nil, err
		}
		before, err := r.db.counters(ctx)
		if err != nil {
			return nil, err
		}
		p.Progress("ui: starting the page")
		at, err := r.servePage(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, at.close()) }()
		p.Progress("ui: asking for every page %d times", pageRequests)
		if err := at.measure(ctx, r, v); err != nil {
			return nil, err
		}
		if err := at.drains(ctx, r, report); err != nil {
			return nil, err
		}
		report.MemoryBytes = residentPeak(at.pid)
		if p.Check {
			report.checkPage()
		}
		return report, r.finish(ctx, report, before)
	})
}

// drains empties a backlog alone and beside viewers, in turn. The best of each counts.
func (at *servedPage) drains(ctx context.Context, r *run, report *Report) error {
	part := r.params.Events / (2*rounds + 1)
	// The first drain meets cold caches and is not measured.
	if _, err := r.drainPart(ctx, r.params.Events-2*rounds*part); err != nil {
		return err
	}
	for round := range rounds {
		// The first of a round has the emptier table, so they change places.
		for _, looked := range []bool{round%2 == 1, round%2 == 0} {
			if err := at.drain(ctx, r, report, part, looked); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain empties a backlog, beside viewers where it is looked at, and keeps the rate if it is the best so far.
func (at *servedPage) drain(ctx context.Context, r *run, report *Report, part int, looked bool) (err error) {
	if !looked {
		alone, err := r.drainPart(ctx, part)
		report.UI.AloneEventsPerSecond = max(report.UI.AloneEventsPerSecond, alone)
		return err
	}
	var viewed float64
	err = at.beside(ctx, report.UI, func() (err error) {
		viewed, err = r.drainPart(ctx, part)
		return err
	})
	if err == nil && viewed > report.EventsPerSecond {
		report.Seconds, report.EventsPerSecond = float64(part)/viewed, viewed
	}
	return err
}

// drainPart emits events, publishes them and returns how many a second.
func (r *run) drainPart(ctx context.Context, n int) (float64, error) {
	r.params.Progress("ui: draining %d events", n)
	if err := r.emit(ctx, n); err != nil {
		return 0, err
	}
	took, err := r.drainInside(ctx, r.publisherTo())
	return float64(n) / took.Seconds(), err
}

func (r *Report) checkPage() {
	worst := 0.0
	for _, page := range r.UI.Pages {
		worst = max(worst, page.P95)
		if page.P95 > maxPageP95 {
			r.atMost("p95 of "+page.Address+" in ms", page.P95, maxPageP95)
		}
	}
	r.atMost("p95 of the slowest page in ms", worst, maxPageP95)
	r.atMost("p95 of an unchanged part in ms", r.UI.Unchanged.P95, maxUnchangedP95)
	r.atLeast(fmt.Sprintf("rate beside %d viewers over one without", viewers), r.EventsPerSecond/r.UI.AloneEventsPerSecond, minBesidePage)
	r.atMost("requests of viewers that were not answered", float64(r.UI.ViewerErrors), 0)
	if r.Processes && r.MemoryBytes > 0 {
		r.atMost("memory of the page in MiB", float64(r.MemoryBytes)/(1<<20), maxPageMiB)
	}
}

// beside lets viewers look while f runs.
func (at *servedPage) beside(ctx context.Context, v *Viewing, f func() error) error {
	looking, stop := context.WithCancel(ctx)
	var group errgroup.Group
	for i := range viewers {
		group.Go(func() error {
			seen := ""
			// They did not all open the page at the same moment.
			for pause := viewerPace * time.Duration(i) / viewers; wait.For(looking, pause) == nil; pause = viewerPace {
				answer, err := at.ask(looking, viewerPaths()[i%len(viewerPaths())]+"?v="+seen)
				if looking.Err() != nil {
					return nil
				}
				at.requests.Add(1)
				if err != nil || answer.status >= http.StatusBadRequest {
					at.errors.Add(1)
				}
				seen = answer.version
			}
			return nil
		})
	}
	err := f()
	stop()
	err = errors.Join(err, group.Wait())
	v.ViewerRequests, v.ViewerErrors = at.requests.Load(), at.errors.Load()
	return err
}

// viewerPaths are what those who look have open.
func viewerPaths() []string {
	return []string{"/parts/", "/parts/causes", "/parts/topics", "/parts/runs"}
}

// viewerPace is how often an open page asks.
const viewerPace = 5 * time.Second

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/lab/rig"
	"github.com/outboxctl/outboxctl/ui"
)

// The criteria of the web page, with a million dead letters among five million rows on two
// processors.
const (
	maxPageP95      = 150.0 // milliseconds
	maxUnchangedP95 = 5.0
	minBesidePage   = 0.97 // of the rate without
	maxPageMiB      = 100.0
)

const (
	// viewers is how many look at the page during the drain, each asking as often as an open page
	// does.
	viewers      = 20
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
	// BesideEventsPerSecond is the drain beside the viewers.
	BesideEventsPerSecond float64 `json:"besideEventsPerSecond"`
	// ViewerRequests were made during the other drain, of which ViewerErrors were not answered.
	ViewerRequests int64 `json:"viewerRequests"`
	ViewerErrors   int64 `json:"viewerErrors"`
}

// PageCost is what one address costs.
type PageCost struct {
	Address  string      `json:"address"`
	Status   int         `json:"status"`
	Bytes    int         `json:"bytes"`
	Duration Percentiles `json:"duration"`
}

// measureUI measures the web page over many rows, and a drain beside those who look at it.
func measureUI(ctx context.Context, s *Session, p Params) *Report {
	return s.trial(ctx, p, func(r *Trial) *Report {
		v := &Viewing{DeadLetters: p.Head / deadShare, Viewers: viewers}
		fillForPage(ctx, r, p.Head, v.DeadLetters)
		before := r.counters(ctx)
		p.say("ui: starting the page")
		at := servePage(ctx, r)
		p.say("ui: asking for every page %d times", pageRequests)
		at.measure(ctx, r, v)
		report := r.report()
		at.drains(ctx, r, report, v)
		report.Extra, report.Events = v, r.emitted
		r.finish(ctx, report, before)
		report.MemoryBytes = residentPeak(at.PID())
		if p.Check {
			checkPage(report, v)
		}
		return report
	})
}

// drains empties a backlog alone and beside viewers, in turn. The best of each counts.
func (at *servedPage) drains(ctx context.Context, r *Trial, report *Report, v *Viewing) {
	part := r.Events / (2*r.Rounds + 1)
	// The first drain meets cold caches and is not measured.
	drainPart(ctx, r, r.Events-2*r.Rounds*part)
	for round := range r.Rounds {
		// The first of a round has the emptier table, so they change places.
		for _, looked := range []bool{round%2 == 1, round%2 == 0} {
			if !looked {
				v.AloneEventsPerSecond = max(v.AloneEventsPerSecond, drainPart(ctx, r, part))
				continue
			}
			var viewed float64
			at.beside(ctx, v, func() { viewed = drainPart(ctx, r, part) })
			if viewed > report.EventsPerSecond {
				report.Seconds, report.EventsPerSecond = float64(part)/viewed, viewed
				v.BesideEventsPerSecond = viewed
			}
		}
	}
}

// drainPart emits events, publishes them and returns how many a second.
func drainPart(ctx context.Context, r *Trial, n int) float64 {
	r.say("ui: draining %d events", n)
	r.emit(ctx, n)
	return float64(n) / r.publish(ctx).Seconds()
}

func checkPage(r *Report, v *Viewing) {
	worst := 0.0
	for _, page := range v.Pages {
		worst = max(worst, page.Duration.P95)
		if page.Duration.P95 > maxPageP95 {
			r.AtMost("p95 of "+page.Address+" in ms", page.Duration.P95, maxPageP95)
		}
	}
	r.AtMost("p95 of the slowest page in ms", worst, maxPageP95)
	r.AtMost("p95 of an unchanged part in ms", v.Unchanged.Duration.P95, maxUnchangedP95)
	r.AtLeast(fmt.Sprintf("rate beside %d viewers over one without", viewers), r.EventsPerSecond/v.AloneEventsPerSecond, minBesidePage)
	r.AtMost("requests of viewers that were not answered", float64(v.ViewerErrors), 0)
	if r.MemoryBytes > 0 {
		r.AtMost("memory of the page in MiB", float64(r.MemoryBytes)/(1<<20), maxPageMiB)
	}
}

// beside lets viewers look while f runs.
func (at *servedPage) beside(ctx context.Context, v *Viewing, f func()) {
	looking, stop := context.WithCancel(ctx)
	var group errgroup.Group
	for i := range viewers {
		group.Go(func() error {
			seen := ""
			// They did not all open the page at the same moment.
			for pause := viewerPace * time.Duration(i) / viewers; rig.Pause(looking, pause); pause = viewerPace {
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
	err := rig.Carry(f)
	stop()
	rig.Check(errors.Join(err, group.Wait()))
	v.ViewerRequests, v.ViewerErrors = at.requests.Load(), at.errors.Load()
}

// viewerPaths are what those who look have open.
func viewerPaths() []string {
	return []string{"/parts/", "/parts/causes", "/parts/topics", "/parts/plans"}
}

// viewerPace is how often an open page asks.
const viewerPace = 5 * time.Second

// lines prints it for a person.
func (v *Viewing) lines(line func(name, format string, args ...any)) {
	line("dead letters", "%s", humanize.Comma(int64(v.DeadLetters)))
	for _, page := range append(v.Pages, v.Unchanged) {
		address := page.Address
		if len(address) > 40 {
			address = address[:39] + "…"
		}
		line("  "+address, "%s; %s bytes, %d", page.Duration, humanize.Comma(int64(page.Bytes)), page.Status)
	}
	line("snapshot", "%.0f ms", 1000*v.SnapshotSeconds)
	line("beside viewers", "%s events/s, %s without (%.2f ×); %d viewers, %d requests, %d not answered", humanize.Comma(int64(v.BesideEventsPerSecond)),
		humanize.Comma(int64(v.AloneEventsPerSecond)), v.BesideEventsPerSecond/v.AloneEventsPerSecond, v.Viewers, v.ViewerRequests, v.ViewerErrors)
}

// fillForPage writes rows behind, of which some are dead: of forty causes, over ten days. An outbox
// keeps what it published for weeks.
func fillForPage(ctx context.Context, r *Trial, rows, dead int) {
	ago := func(n int) string { return fmt.Sprintf("now() - interval '10 days' * n / %d", max(n, 1)) }
	r.fill(ctx, rows-dead, order(), map[string]string{"published_at": ago(rows - dead)})
	r.fill(ctx, dead, order(), map[string]string{"created_at": ago(dead) + " - interval '1 second'", "dead_at": ago(dead),
		"attempt_count": "10", "last_error": "'the broker refused the message: code ' || n % 40"})
	for _, statement := range []string{`
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count,
       failed_at, topic, fingerprint, event_created_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json,
       (ARRAY['max_attempts', 'invalid_payload', 'rejected_by_broker'])[1 + seq % 3]::outbox_dlq_reason,
       last_error, 10, dead_at, 'domain', md5(last_error), created_at
  FROM outbox_events WHERE dead_at IS NOT NULL`,
		"VACUUM ANALYZE outbox_events", "VACUUM ANALYZE outbox_dlq"} {
		rig.Must(r.pool.Exec(ctx, statement))
	}
}

// servedPage is a page that answers.
type servedPage struct {
	*rig.Process
	base   string
	client *http.Client

	requests, errors atomic.Int64
}

// servePage starts outboxctl ui and waits for its first figures.
func servePage(ctx context.Context, t *Trial) *servedPage {
	// The roles of a server belong to its first database; on one that has others a scratch database
	// grants them nothing.
	role := "-"
	if t.DatabaseURL == "" {
		role = ui.DefaultReadRole
	}
	at := &servedPage{Process: t.Start("ui", t.env(), t.Params.Program, "ui", "--addr", "127.0.0.1:0", "--read-role", role)}
	said := regexp.MustCompile(`http://[0-9.:]+`)
	rig.Await(ctx, patience, "the page's address", func() bool {
		at.base = said.FindString(string(at.Log()))
		return at.base != "" || !at.Alive()
	})
	// What is asked for is compressed, as for a browser, and its bytes are those on the line.
	at.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: viewers + 1}}
	t.OnClose(func() error { at.client.CloseIdleConnections(); return nil })
	rig.Await(ctx, patience, "the page's figures", func() bool {
		if !at.Alive() {
			rig.Check(fmt.Errorf("outboxctl ui has ended: %s: %s", at.Exit(), at.Log()))
		}
		answer, err := at.ask(ctx, "/readyz")
		return err == nil && answer.status == http.StatusOK
	})
	return at
}

type pageAnswer struct {
	status, bytes int
	version       string
	body          string
}

// ask asks for one address as a browser does.
func (at *servedPage) ask(ctx context.Context, path string) (a pageAnswer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.base+path, nil)
	if err != nil {
		return a, err
	}
	if path != "/metrics" {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	response, err := at.client.Do(request)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(response.Body)
	return pageAnswer{response.StatusCode, len(body), response.Header.Get("Outboxctl-Version"), string(body)}, err
}

// measure asks for every page, and then for one that has not changed.
func (at *servedPage) measure(ctx context.Context, r *Trial, v *Viewing) {
	var letter, event, fingerprint string
	rig.Check(r.pool.QueryRow(ctx, `SELECT id::text, event_id::text, fingerprint FROM outbox_dlq ORDER BY failed_at DESC LIMIT 1`).Scan(&letter, &event, &fingerprint))
	for _, path := range []string{
		"/", "/causes", "/causes?by=reason", "/dead-letters", "/dead-letters?limit=100&state=all", "/dead-letters?reason=max_attempts", "/dead-letters?fingerprint=" + fingerprint,
		"/dead-letters/" + letter, "/events", "/events?status=published", "/events/" + event, "/events?aggregate=" + event, "/search?q=" + letter, "/plans", "/topics", "/history", "/history?span=24h", "/history?span=7d", "/catalogue", "/audit",
		"/dead-letters?limit=1000",
	} {
		v.Pages = append(v.Pages, at.cost(ctx, path))
	}
	for range 5 { // the figures of the menu may have moved on meanwhile
		first := rig.Must(at.ask(ctx, "/parts/settings"))
		if v.Unchanged = at.cost(ctx, "/parts/settings?v="+first.version); v.Unchanged.Status == http.StatusNoContent {
			break
		}
	}
	figures := rig.Must(at.ask(ctx, "/metrics"))
	if _, rest, found := strings.Cut(figures.body, "\noutbox_ui_snapshot_duration_seconds "); found {
		text, _, _ := strings.Cut(rest, "\n")
		v.SnapshotSeconds = rig.Must(strconv.ParseFloat(text, 64))
	}
}

// cost asks for an address again and again.
func (at *servedPage) cost(ctx context.Context, path string) PageCost {
	cost := PageCost{Address: path}
	var took []time.Duration
	for range pageRequests {
		began := time.Now()
		answer := rig.Must(at.ask(ctx, path))
		if answer.status >= http.StatusBadRequest {
			rig.Check(fmt.Errorf("ask for %s: it answers %d", path, answer.status))
		}
		took = append(took, time.Since(began))
		cost.Status, cost.Bytes = answer.status, answer.bytes
	}
	cost.Duration = percentilesOf(took)
	return cost
}

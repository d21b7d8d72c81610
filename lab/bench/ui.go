package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/internal/bench"
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
	Address  string            `json:"address"`
	Status   int               `json:"status"`
	Bytes    int               `json:"bytes"`
	P95      float64           `json:"p95Ms"`
	Duration bench.Percentiles `json:"duration"`
}

// measureUI measures the web page over many rows, and a drain beside those who look at it.
func measureUI(ctx context.Context, s *bench.Session) *bench.Report {
	p := s.Params
	return with(ctx, s, p, func(r *bench.Trial) *bench.Report {
		report, v := r.NewReport(), &Viewing{DeadLetters: p.Head / deadShare, Viewers: viewers}
		report.Extra = v
		fillForPage(ctx, r, p.Head, v.DeadLetters)
		before := rig.Must(r.DB.Counters(ctx))
		p.Progress("ui: starting the page")
		at := servePage(ctx, r)
		err := rig.Carry(func() {
			p.Progress("ui: asking for every page %d times", pageRequests)
			at.measure(ctx, r, v)
			at.drains(ctx, r, report, v)
			report.MemoryBytes = bench.ResidentPeak(at.pid)
			if p.Check {
				checkPage(report, v)
			}
			must(report, r.Finish(ctx, report, before))
		})
		rig.Check(errors.Join(err, at.close()))
		return report
	})
}

// drains empties a backlog alone and beside viewers, in turn. The best of each counts.
func (at *servedPage) drains(ctx context.Context, r *bench.Trial, report *bench.Report, v *Viewing) {
	part := r.Params.Events / (2*bench.Rounds + 1)
	// The first drain meets cold caches and is not measured.
	drainPart(ctx, r, r.Params.Events-2*bench.Rounds*part)
	for round := range bench.Rounds {
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
func drainPart(ctx context.Context, r *bench.Trial, n int) float64 {
	r.Params.Progress("ui: draining %d events", n)
	rig.Check(r.Emit(ctx, n))
	return float64(n) / rig.Must(r.DrainInside(ctx)).Seconds()
}

func checkPage(r *bench.Report, v *Viewing) {
	worst := 0.0
	for _, page := range v.Pages {
		worst = max(worst, page.P95)
		if page.P95 > maxPageP95 {
			r.AtMost("p95 of "+page.Address+" in ms", page.P95, maxPageP95)
		}
	}
	r.AtMost("p95 of the slowest page in ms", worst, maxPageP95)
	r.AtMost("p95 of an unchanged part in ms", v.Unchanged.P95, maxUnchangedP95)
	r.AtLeast(fmt.Sprintf("rate beside %d viewers over one without", viewers), r.EventsPerSecond/v.AloneEventsPerSecond, minBesidePage)
	r.AtMost("requests of viewers that were not answered", float64(v.ViewerErrors), 0)
	if r.Processes && r.MemoryBytes > 0 {
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

// Lines prints it for a person.
func (v *Viewing) Lines(line func(name, format string, args ...any)) {
	line("dead letters", "%s", humanize.Comma(int64(v.DeadLetters)))
	for _, page := range append(v.Pages, v.Unchanged) {
		address := page.Address
		if len(address) > 40 {
			address = address[:39] + "…"
		}
		line("  "+address, "p95 %.1f ms; %s; %s bytes, %d", page.P95, page.Duration, humanize.Comma(int64(page.Bytes)), page.Status)
	}
	line("snapshot", "%.0f ms", 1000*v.SnapshotSeconds)
	line("beside viewers", "%s events/s, %s without (%.2f ×); %d viewers, %d requests, %d not answered", humanize.Comma(int64(v.BesideEventsPerSecond)),
		humanize.Comma(int64(v.AloneEventsPerSecond)), v.BesideEventsPerSecond/v.AloneEventsPerSecond, v.Viewers, v.ViewerRequests, v.ViewerErrors)
}

// fillForPage writes rows behind, of which some are dead: of forty causes, over ten days. An outbox
// keeps what it published for weeks.
func fillForPage(ctx context.Context, r *bench.Trial, rows, dead int) {
	ago := func(n int) string { return fmt.Sprintf("now() - interval '10 days' * n / %d", max(n, 1)) }
	fill(ctx, r, rows-dead, order(), map[string]string{"published_at": ago(rows - dead)})
	fill(ctx, r, dead, order(), map[string]string{"created_at": ago(dead) + " - interval '1 second'", "dead_at": ago(dead),
		"attempt_count": "10", "last_error": "'the broker refused the message: code ' || n % 40"})
	for _, statement := range []string{`
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count,
       failed_at, topic, fingerprint, event_created_at)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json,
       (ARRAY['max_attempts', 'invalid_payload', 'rejected_by_broker'])[1 + seq % 3]::outbox_dlq_reason,
       last_error, 10, dead_at, 'domain', md5(last_error), created_at
  FROM outbox_events WHERE dead_at IS NOT NULL`,
		"VACUUM ANALYZE outbox_events", "VACUUM ANALYZE outbox_dlq"} {
		rig.Must(r.DB.Pool.Exec(ctx, statement))
	}
}

// exitTerminated is how outboxctl ends when it is told to.
const exitTerminated = 128 + int(syscall.SIGTERM)

// pageConns is what outboxctl ui gives its reading pool.
const pageConns = 4

// servedPage is a page that answers, in this process or one of its own.
type servedPage struct {
	base   string
	pid    int
	client *http.Client
	stop   func() error

	requests, errors atomic.Int64
}

func (at *servedPage) close() error {
	at.client.CloseIdleConnections()
	return at.stop()
}

// servePage starts the page and waits for its first figures.
func servePage(ctx context.Context, r *bench.Trial) (at *servedPage) {
	if r.Params.Processes {
		at = pageOutside(ctx, r)
	} else {
		at = pageInside(ctx, r)
	}
	// What is asked for is compressed, as for a browser, and its bytes are those on the line.
	at.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: viewers + 1}}
	err := rig.Eventually(ctx, bench.Patience, func() bool {
		answer, err := at.ask(ctx, "/readyz")
		return err == nil && answer.status == http.StatusOK
	})
	if err != nil {
		rig.Check(errors.Join(fmt.Errorf("wait for the page's figures: %w", err), at.close()))
	}
	return at
}

// pageRole is the role the page reads under. The roles of a server belong to its first database; on
// one that has others a scratch database grants them nothing.
func pageRole(r *bench.Trial) string {
	if r.Params.DatabaseURL != "" {
		return "-"
	}
	return ui.DefaultReadRole
}

func pageInside(ctx context.Context, r *bench.Trial) *servedPage {
	pool := rig.Must(r.DB.Open(ctx, "outboxctl bench ui", pageConns))
	handler := rig.Must(ui.New(ui.Config{
		ReadPool: pool, ReadRole: pageRole(r), Metrics: prometheus.NewRegistry(),
		Identify: func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "bench"}, nil },
	}))
	server := httptest.NewServer(handler)
	return &servedPage{base: server.URL, pid: os.Getpid(), stop: func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		server.Close()
		err := handler.Shutdown(ctx)
		pool.Close()
		return err
	}}
}

// pageOutside runs outboxctl ui, whose memory can be told from the bench's.
func pageOutside(ctx context.Context, r *bench.Trial) *servedPage {
	cmd := exec.CommandContext(ctx, r.Params.Executable, "ui", "--addr", "127.0.0.1:0", "--read-role", pageRole(r))
	cmd.Args[0] = "outboxctl"
	cmd.Env = []string{"OUTBOXCTL_DATABASE_URL=" + r.DB.URL, "OUTBOXCTL_LOG_LEVEL=error"}
	said := rig.Must(cmd.StderrPipe())
	rig.Check(cmd.Start())
	stop := func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		err := cmd.Wait()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == exitTerminated {
			return nil
		}
		return err
	}
	lines := bufio.NewReader(said)
	line, err := lines.ReadString('\n')
	base := regexp.MustCompile(`http://[0-9.:]+`).FindString(line)
	if err != nil || base == "" {
		rig.Check(errors.Join(fmt.Errorf("start the page: it says %q", line), stop()))
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return &servedPage{base: base, pid: cmd.Process.Pid, stop: stop}
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
func (at *servedPage) measure(ctx context.Context, r *bench.Trial, v *Viewing) {
	var letter, event, fingerprint string
	rig.Check(r.DB.Pool.QueryRow(ctx, `SELECT id::text, event_id::text, fingerprint FROM outbox_dlq ORDER BY failed_at DESC LIMIT 1`).Scan(&letter, &event, &fingerprint))
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
	cost, h := PageCost{Address: path}, bench.NewHistogram()
	for range pageRequests {
		began := time.Now()
		answer := rig.Must(at.ask(ctx, path))
		if answer.status >= http.StatusBadRequest {
			rig.Check(fmt.Errorf("ask for %s: it answers %d", path, answer.status))
		}
		bench.Record(h, time.Since(began))
		cost.Status, cost.Bytes = answer.status, answer.bytes
	}
	cost.P95, cost.Duration = float64(h.ValueAtQuantile(95))/1000, bench.PercentilesOf(h)
	return cost
}

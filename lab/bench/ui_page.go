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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/lab/rig"
	"github.com/outboxctl/outboxctl/ui"
)

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
		"/api/v1/stats", "/api/v1/causes", "/api/v1/dead-letters?limit=1000",
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

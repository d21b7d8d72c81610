package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/internal/bench"
	"github.com/outboxctl/outboxctl/internal/wait"
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
func servePage(ctx context.Context, r *bench.Trial) (at *servedPage, err error) {
	if r.Params.Processes {
		at, err = pageOutside(ctx, r)
	} else {
		at, err = pageInside(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	// What is asked for is compressed, as for a browser, and its bytes are those on the line.
	at.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: viewers + 1}}
	waiting, cancel := context.WithTimeout(ctx, bench.Patience)
	defer cancel()
	for {
		answer, err := at.ask(waiting, "/readyz")
		if err == nil && answer.status == http.StatusOK {
			return at, nil
		}
		if wait.For(waiting, 50*time.Millisecond) != nil {
			return nil, errors.Join(errors.New("wait for the page's figures: they do not come"), err, at.close())
		}
	}
}

// pageRole is the role the page reads under. The roles of a server belong to its first database; on one that has others a
// scratch database grants them nothing.
func pageRole(r *bench.Trial) string {
	if r.Params.DatabaseURL != "" {
		return "-"
	}
	return ui.DefaultReadRole
}

func pageInside(ctx context.Context, r *bench.Trial) (*servedPage, error) {
	pool, err := r.DB.Open(ctx, "outboxctl bench ui", pageConns)
	if err != nil {
		return nil, err
	}
	handler, err := ui.New(ui.Config{
		ReadPool: pool, ReadRole: pageRole(r), Metrics: prometheus.NewRegistry(),
		Identify: func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "bench"}, nil },
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, handler.Shutdown(ctx))
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return &servedPage{base: "http://" + listener.Addr().String(), pid: os.Getpid(), stop: func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err := errors.Join(server.Shutdown(ctx), handler.Shutdown(ctx))
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		pool.Close()
		return err
	}}, nil
}

// pageOutside runs outboxctl ui, whose memory can be told from the bench's.
func pageOutside(ctx context.Context, r *bench.Trial) (*servedPage, error) {
	cmd := exec.CommandContext(ctx, r.Params.Executable, "ui", "--addr", "127.0.0.1:0", "--read-role", pageRole(r))
	cmd.Args[0] = "outboxctl"
	cmd.Env = []string{"OUTBOXCTL_DATABASE_URL=" + r.DB.URL, "OUTBOXCTL_LOG_LEVEL=error"}
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the page: %w", err)
	}
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
		return nil, errors.Join(fmt.Errorf("start the page: it says %q", line), stop())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return &servedPage{base: base, pid: cmd.Process.Pid, stop: stop}, nil
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
func (at *servedPage) measure(ctx context.Context, r *bench.Trial, v *Viewing) error {
	var letter, event, fingerprint string
	err := r.DB.Pool.QueryRow(ctx, `SELECT id::text, event_id::text, fingerprint FROM outbox_dlq ORDER BY failed_at DESC LIMIT 1`).Scan(&letter, &event, &fingerprint)
	if err != nil {
		return fmt.Errorf("choose a dead letter: %w", err)
	}
	for _, path := range []string{
		"/", "/causes", "/causes?by=reason", "/dead-letters", "/dead-letters?limit=100&state=all", "/dead-letters?reason=max_attempts", "/dead-letters?fingerprint=" + fingerprint,
		"/dead-letters/" + letter, "/events", "/events?status=published", "/events/" + event, "/events?aggregate=" + event, "/search?q=" + letter, "/runs", "/topics", "/audit",
		"/api/v1/stats", "/api/v1/causes", "/api/v1/dead-letters?limit=1000",
	} {
		cost, err := at.cost(ctx, path)
		if err != nil {
			return err
		}
		v.Pages = append(v.Pages, cost)
	}
	first, err := at.ask(ctx, "/parts/settings")
	if err != nil {
		return err
	}
	if v.Unchanged, err = at.cost(ctx, "/parts/settings?v="+first.version); err != nil {
		return err
	}
	figures, err := at.ask(ctx, "/metrics")
	if err != nil {
		return err
	}
	if _, rest, found := strings.Cut(figures.body, "\noutbox_ui_snapshot_duration_seconds "); found {
		text, _, _ := strings.Cut(rest, "\n")
		v.SnapshotSeconds, err = strconv.ParseFloat(text, 64)
	}
	return err
}

// cost asks for an address again and again.
func (at *servedPage) cost(ctx context.Context, path string) (PageCost, error) {
	cost, took := PageCost{Address: path}, []time.Duration{}
	h := bench.NewHistogram()
	for range pageRequests {
		began := time.Now()
		answer, err := at.ask(ctx, path)
		if err != nil {
			return cost, fmt.Errorf("ask for %s: %w", path, err)
		}
		if answer.status >= http.StatusBadRequest {
			return cost, fmt.Errorf("ask for %s: it answers %d", path, answer.status)
		}
		took = append(took, time.Since(began))
		bench.Record(h, took[len(took)-1])
		cost.Status, cost.Bytes = answer.status, answer.bytes
	}
	slices.Sort(took)
	cost.P95, cost.Duration = float64(took[len(took)*95/100].Microseconds())/1000, bench.PercentilesOf(h)
	return cost, nil
}

package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// gauges are what a process must not collect, and how much more of it than at first is no sign of
// collecting: pools open connections as they are needed and close them later.
func gauges() map[string]int {
	return map[string]int{"go_goroutines": 80, "process_open_fds": 40}
}

// measure reads the gauges of every process that serves metrics.
func (w *world) measure(ctx context.Context) map[string]int {
	found := map[string]int{}
	for name, addr := range w.http {
		values, err := scrape(ctx, addr)
		if err != nil {
			continue // it has just been killed
		}
		for gauge := range gauges() {
			if v, ok := values[gauge]; ok {
				found[name+" "+gauge] = v
			}
		}
	}
	return found
}

func scrape(ctx context.Context, addr string) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	values := map[string]int{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = int(n)
		}
	}
	return values, lines.Err()
}

// compare records the gauges of two measurements.
func (w *world) compare(first, last map[string]int) {
	for name, v := range last {
		_, gauge, _ := strings.Cut(name, " ")
		if before, ok := first[name]; ok {
			w.rec.Add(history.Resource{Name: name, First: before, Last: v, Slack: gauges()[gauge]})
		}
	}
}

// compareStats holds what stats says against the tables. Nothing moves any more, and a slow machine
// has the time that it needs.
func (w *world) compareStats(ctx context.Context, sh *shell) {
	sh.env = append(slices.Clone(sh.env), "OUTBOXCTL_DATABASE_READ_TIMEOUT=5m")
	c := sh.run(ctx, "", "", "stats", "-o", "json")
	var said stats.Report
	if err := json.Unmarshal([]byte(c.Stdout), &said); err != nil {
		rig.Check(fmt.Errorf("read stats: %w: %s", err, c.Stderr))
	}
	s := history.Stats{Said: map[string]int64{
		"backlog": said.Backlog, "due": said.Due, "backingOff": said.BackingOff, "inFlight": said.InFlight,
		"dead": said.Dead, "dlqOpen": said.DLQ.Open,
	}}
	rig.Check(w.truth.QueryRow(ctx, `
		SELECT jsonb_build_object(
		       'backlog', count(*) FILTER (WHERE living), 'inFlight', count(*) FILTER (WHERE living AND leased),
		       'due', count(*) FILTER (WHERE living AND NOT leased AND next_attempt_at <= now()),
		       'backingOff', count(*) FILTER (WHERE living AND NOT leased AND next_attempt_at > now()),
		       'dead', count(*) FILTER (WHERE dead_at IS NOT NULL), 'dlqOpen', (SELECT count(*) FROM outbox_dlq WHERE state = 'open'))
		  FROM (SELECT *, published_at IS NULL AND dead_at IS NULL AS living,
		               EXISTS (SELECT FROM outbox_leases AS l WHERE l.until > now() AND l.seqs @> o.seq) AS leased
		          FROM outbox_events AS o) AS e`).Scan(&s.Truth))
	w.rec.Add(s)
}

package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	// patience bounds the wait for the next arrival, slowPatience that for a destination whose
	// arrivals are read afterwards.
	patience     = time.Minute
	slowPatience = 10 * time.Minute
)

// Trial is one measurement: a scratch database, a broker, publishers, and what was seen. What is
// started in it ends with it.
type Trial struct {
	*rig.World
	Params

	server  *rig.World // its Postgres is the private server, if there is one
	url     string     // of the scratch database
	through string     // the same, by way of proxy
	pool    *pgxpool.Pool
	proxy   *rig.Cutter // counts the program's round trips; nil on a server of somebody else's
	to      destination
	seen    *recorder
	emitted int

	publishers []*service
	ended      usage // of publishers
}

// usage is what processes took.
type usage struct {
	processor time.Duration
	memory    int64 // the largest
	metrics   metrics
}

// trial prepares a run, lets steps measure, and cleans up whatever happens.
func (s *Session) trial(ctx context.Context, p Params, steps func(t *Trial) *Report) (report *Report) {
	s.trials++
	dir := filepath.Join(s.Dir, fmt.Sprint("trial-", s.trials))
	rig.Check(os.Mkdir(dir, 0o755))
	t := &Trial{World: &rig.World{Dir: dir, Program: p.Program}, Params: p, server: s.World, seen: newRecorder(p.Events), ended: usage{metrics: metrics{}}}
	err := rig.Carry(func() {
		s.newDatabase(ctx, t)
		t.through = t.url
		if s.Postgres != nil {
			t.proxy, t.through = t.counted(t.url)
		}
		t.pool = t.Pool(ctx, t.url, 8)
		t.to = openDestination(ctx, t, p.Broker)
		catalogue := filepath.Join(dir, "bench.yaml")
		rig.Check(os.WriteFile(catalogue, catalogueOf(p.types), 0o600))
		t.Outboxctl(ctx, t.env(), "migrate", "--types", "text")
		t.Outboxctl(ctx, t.env(), "registry", "apply", catalogue, "--yes")
		report = steps(t)
	})
	rig.Check(errors.Join(err, t.Close()))
	return report
}

// counted puts a proxy that counts round trips before a server.
func (t *Trial) counted(serverURL string) (*rig.Cutter, string) {
	proxy := rig.Must(rig.NewCutter(rig.HostOf(serverURL), 0, rand.New(rand.NewPCG(1, 1))))
	t.OnClose(func() error { proxy.Close(); return nil })
	return proxy, rig.WithHost(serverURL, proxy.Addr())
}

// env is what every outboxctl of the trial gets: nothing of the caller's own configuration, and
// nothing secret in the arguments.
func (t *Trial) env() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.Dir, "OUTBOXCTL_ACTOR=bench", "OUTBOXCTL_LOG_LEVEL=warn",
		"OUTBOXCTL_DATABASE_URL=" + t.through}, t.to.env...)
}

// service is a process of the program that answers /metrics.
type service struct {
	*rig.Process
	addr string
}

// serve starts one.
func (t *Trial) serve(env []string, args ...string) *service {
	listener := rig.Must(net.Listen("tcp", "127.0.0.1:0"))
	addr := listener.Addr().String()
	rig.Check(listener.Close())
	return &service{t.Start(args[0], env, t.Params.Program, append(args, "--http-addr", addr)...), addr}
}

func (s *service) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", path, response.StatusCode)
	}
	return string(body), err
}

// ready waits until the process says that it is.
func (s *service) ready(ctx context.Context) {
	rig.Await(ctx, patience, s.Name+" to be ready", func() bool {
		s.check()
		_, err := s.get(ctx, "/readyz")
		return err == nil
	})
}

// check ends the run when the process has ended.
func (s *service) check() {
	if !s.Alive() {
		rig.Check(fmt.Errorf("%s has ended: %s: %s", s.Name, s.Exit(), bytes.TrimSpace(s.Log())))
	}
}

// end stops the process and adds what it took.
func (s *service) end(ctx context.Context, u *usage) {
	s.check()
	u.memory = max(u.memory, residentPeak(s.PID()))
	s.End(ctx, syscall.SIGTERM)
	u.processor += s.Processor()
	http.DefaultClient.CloseIdleConnections()
}

// start starts the publishers.
func (t *Trial) start() {
	args := append([]string{"publish"}, t.to.args...)
	for flag, n := range map[string]int{"--workers": t.Workers, "--batch-size": t.BatchSize} {
		if n > 0 {
			args = append(args, flag, strconv.Itoa(n))
		}
	}
	if t.NoWake {
		args = append(args, "--wake", "off")
	}
	for range t.Publishers {
		t.publishers = append(t.publishers, t.serve(t.env(), args...))
	}
}

// stop ends the publishers. Only then has the server counted all that they did.
func (t *Trial) stop(ctx context.Context) {
	for _, p := range t.publishers {
		p.end(ctx, &t.ended)
	}
	t.publishers = nil
}

// await waits until everything that was emitted is published, or nothing arrives any more: then
// the comparison says what is missing.
func (t *Trial) await(ctx context.Context) {
	limit := slowPatience
	if t.to.live {
		limit = patience
	}
	for last, since := 0, time.Now(); time.Since(since) < limit; {
		for _, p := range t.publishers {
			p.check()
		}
		arrived := t.seen.count()
		if !t.to.live || arrived >= t.emitted {
			var left bool
			rig.Check(t.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM outbox_events
				WHERE published_at IS NULL AND dead_at IS NULL AND `+measured+`)`).Scan(&left))
			if !left {
				return
			}
		}
		if arrived > last {
			last, since = arrived, time.Now()
		}
		if !rig.Pause(ctx, 50*time.Millisecond) {
			rig.Check(ctx.Err())
		}
	}
}

// drain publishes what is there and reports it.
func (t *Trial) drain(ctx context.Context) *Report {
	// An outbox in use has been analysed; one filled a moment ago has not.
	rig.Must(t.pool.Exec(ctx, `ANALYZE outbox_events`))
	t.say("%s: draining", t.Mode)
	before := t.counters(ctx)
	took := t.publish(ctx)
	report := t.report()
	report.Took(took)
	t.finish(ctx, report, before)
	return report
}

// publish runs the publishers until nothing is left and returns the time from the first arrival to
// the last. Starting a process is not publishing.
func (t *Trial) publish(ctx context.Context) time.Duration {
	t.seen.mark()
	t.start()
	t.await(ctx)
	t.ended.metrics.add(t.metrics(ctx))
	t.stop(ctx)
	took := t.seen.span()
	if !t.to.live {
		var seconds float64
		rig.Check(t.pool.QueryRow(ctx, `SELECT extract(epoch FROM max(published_at) - min(published_at))::float8
			FROM outbox_events WHERE `+measured).Scan(&seconds))
		took = time.Duration(seconds * float64(time.Second))
	}
	return max(took, time.Millisecond)
}

// report is a report with the run's parameters in it.
func (t *Trial) report() *Report {
	return &Report{Mode: t.Mode, Program: t.Params.Program, Broker: t.Params.Broker, Events: t.emitted, PayloadBytes: t.PayloadBytes,
		Publishers: t.Publishers, Head: t.Head, Keys: t.Keys}
}

// finish adds what was counted and judges whether the run was correct. The publishers have ended.
func (t *Trial) finish(ctx context.Context, r *Report, before counters) {
	after := t.countersAfter(ctx, before)
	r.Spent = t.spent(before, after)
	r.WALBytesPerEvent = float64(after.wal-before.wal) / float64(max(t.emitted, 1))
	r.WritesPerEvent = float64(after.updates-before.updates) / float64(max(t.emitted, 1))
	r.ClaimIndexGrowth = float64(after.openIndexes) / float64(max(before.openIndexes, 1))
	r.MemoryBytes = t.ended.memory
	if r.Claim == nil {
		r.Claim = t.ended.metrics.cost("outbox_claim_duration_seconds", t.emitted)
		r.Settle = t.ended.metrics.cost("outbox_settle_duration_seconds", t.emitted)
	}
	r.LeasesLost = int64(t.ended.metrics["outbox_lease_lost_total"])
	r.Troubles = int64(t.ended.metrics["outbox_errors_total"])
	t.verify(ctx, r)
}

// verify compares the broker with the table.
func (t *Trial) verify(ctx context.Context, r *Report) {
	t.to.collect(ctx)
	r.Delivery = t.seen.verify(ctx, t.pool)
	if !r.Delivery.Exact() {
		rig.Check(&wrongError{fmt.Errorf("%w: %s", ErrWrong, r.Delivery), r})
	}
}

// counters are the server's own figures about the scratch database.
type counters struct {
	wal, updates, transactions int64
	openIndexes                int64 // bytes of the indexes of open events
	buffers                    int64 // pages looked at
	roundTrips                 int64
	// database and self are processor times: of the server's processes, and of this one with the
	// fake in it.
	database, self time.Duration
}

const countersSQL = `
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, t.n_tup_upd, d.xact_commit + d.xact_rollback, d.blks_hit + d.blks_read,
       (SELECT coalesce(sum(pg_relation_size(i.indexrelid)), 0)::bigint FROM pg_index AS i WHERE i.indrelid = t.relid AND i.indpred IS NOT NULL)
  FROM pg_stat_user_tables AS t, pg_stat_database AS d
 WHERE t.relname = 'outbox_events' AND d.datname = current_database()`

func (t *Trial) counters(ctx context.Context) (c counters) {
	rig.Check(t.pool.QueryRow(ctx, countersSQL).Scan(&c.wal, &c.updates, &c.transactions, &c.buffers, &c.openIndexes))
	if t.server.Postgres != nil {
		c.database = familyTime(t.server.Postgres.PID())
		c.roundTrips = t.proxy.RoundTrips()
	}
	var own syscall.Rusage
	rig.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &own))
	c.self = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return c
}

// countersAfter waits until the server has counted an update of each event: a backend reports late,
// at the latest when its connection ends.
func (t *Trial) countersAfter(ctx context.Context, before counters) (after counters) {
	_ = rig.Eventually(ctx, 5*time.Second, func() bool { // one that never says it has other figures
		after = t.counters(ctx)
		return after.updates-before.updates >= int64(t.emitted)
	})
	return after
}

// spent is what was used between two readings, per event.
func (t *Trial) spent(before, after counters) *Spending {
	events := float64(max(t.emitted, 1))
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / events }
	return &Spending{
		DatabaseMicros: micros(after.database - before.database), PublisherMicros: micros(t.ended.processor),
		BenchMicros: micros(after.self - before.self), Buffers: float64(after.buffers-before.buffers) / events,
		Transactions: float64(after.transactions-before.transactions) / events,
		RoundTrips:   float64(after.roundTrips-before.roundTrips) / events,
	}
}

// residentPeak is the largest resident size a process has had, zero where the system does not say.
func residentPeak(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, peak, _ := strings.Cut(string(status), "\nVmHWM:")
	var kib int64
	_, _ = fmt.Sscan(peak, &kib) // zero where it is not there
	return kib << 10
}

// clockTick is what /proc counts the time of processes in.
const clockTick = 10 * time.Millisecond

// statTimes adds up fields of /proc/PID/stat, counted behind the name, which may hold blanks.
func statTimes(pid int, fields ...int) (total time.Duration) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	said := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, at := range fields {
		ticks, _ := strconv.ParseInt(said[at], 10, 64) // zero where it is not there
		total += time.Duration(ticks) * clockTick
	}
	return total
}

// processTime is the processor time of a process so far, to a clock tick.
func processTime(pid int) time.Duration { return statTimes(pid, 11, 12) }

// familyTime is the processor time of a process's children, those that ended included; zero where
// the system does not say.
func familyTime(pid int) time.Duration {
	total := statTimes(pid, 13, 14)
	// Each thread lists the children that it has started.
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // fails only on a malformed pattern
	if len(threads) == 0 {
		return 0 // this kernel does not list them
	}
	for _, thread := range threads {
		children, _ := os.ReadFile(thread) // one that has ended handed its children over
		for child := range strings.FieldsSeq(string(children)) {
			total += scheduled(child)
		}
	}
	return total
}

// scheduled is the processor time of a process of one thread; zero once it has ended.
func scheduled(pid string) time.Duration {
	used, _ := os.ReadFile("/proc/" + pid + "/schedstat")
	first, _, _ := strings.Cut(string(used), " ")
	ns, _ := strconv.ParseInt(cmp.Or(first, "0"), 10, 64)
	return time.Duration(ns)
}

package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// Report is the result of one run.
type Report struct {
	Mode         string `json:"mode"`
	Program      string `json:"program,omitempty"`
	Broker       string `json:"broker,omitempty"`
	Events       int    `json:"events"`
	PayloadBytes int    `json:"payloadBytes"`
	Publishers   int    `json:"publishers,omitempty"`
	// Head is how many rows stood in the way, or lay behind.
	Head int `json:"head,omitempty"`
	Keys int `json:"keys,omitempty"`
	// Variant is the catalogue that mode catalogue measured.
	Variant string `json:"variant,omitempty"`

	Seconds         float64 `json:"seconds"`
	EventsPerSecond float64 `json:"eventsPerSecond"`

	// Latency is commit to acknowledgement; only steady modes have one.
	Latency *Percentiles `json:"latency,omitempty"`
	Claim   *Cost        `json:"claim,omitempty"`
	Settle  *Cost        `json:"settle,omitempty"`

	WALBytesPerEvent float64 `json:"walBytesPerEvent"`
	// Spent is what one event took of the machine.
	Spent *Spending `json:"spentPerEvent,omitempty"`
	// WritesPerEvent is how often an event's row was written: to mark it, and not to lease it.
	WritesPerEvent float64 `json:"writesPerEvent"`
	// ClaimIndexGrowth is the size of the indexes of open events over that before the drain.
	ClaimIndexGrowth float64 `json:"claimIndexGrowth,omitempty"`
	// MemoryBytes is the largest resident size of the process that was measured.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// CPUShare and QueriesPerSecond are measured when idle.
	CPUShare         float64 `json:"cpuShare,omitempty"`
	QueriesPerSecond float64 `json:"queriesPerSecond,omitempty"`

	// Extra is what only one mode measures.
	Extra any `json:"extra,omitempty"`

	// HeadDisturbed counts rows in the way that a publisher charged or changed.
	HeadDisturbed int64 `json:"headDisturbed,omitempty"`
	// LeasesLost counts rows whose settle came too late, Troubles the errors the publishers got over.
	// On a machine that keeps up both are zero.
	LeasesLost int64    `json:"leasesLost"`
	Troubles   int64    `json:"troubles"`
	Delivery   Delivery `json:"delivery"`
	// Server is the version PostgreSQL reports.
	Server string `json:"server,omitempty"`
	// Compared are the runs this one is judged against, Against is the other program's.
	Compared []*Report `json:"compared,omitempty"`
	Against  *Report   `json:"against,omitempty"`
	Checks   []Check   `json:"checks,omitempty"`
}

// Percentiles are in milliseconds.
type Percentiles struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50Ms"`
	P95   float64 `json:"p95Ms"`
	P99   float64 `json:"p99Ms"`
	Max   float64 `json:"maxMs,omitempty"`
}

// percentilesOf sums times up.
func percentilesOf(took []time.Duration) Percentiles {
	if len(took) == 0 {
		return Percentiles{}
	}
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[int(math.Ceil(q*float64(len(took))))-1].Microseconds()) / 1000
	}
	return Percentiles{int64(len(took)), at(.5), at(.95), at(.99), at(1)}
}

// Cost is what the publishers themselves measured of one kind of work.
type Cost struct {
	Calls          int64   `json:"calls"`
	MicrosPerEvent float64 `json:"microsPerEvent"`
	// Duration is read off the buckets of a histogram.
	Duration Percentiles `json:"duration"`
}

// Spending is what one event took. The database's processor time and the round trips are zero on a
// server that the bench did not start.
type Spending struct {
	DatabaseMicros  float64 `json:"databaseMicros,omitempty"`
	PublisherMicros float64 `json:"publisherMicros,omitempty"`
	ConsumerMicros  float64 `json:"consumerMicros,omitempty"`
	// BenchMicros are the fake's, the proxy's before the database, and who emits meanwhile.
	BenchMicros float64 `json:"benchMicros"`
	// Buffers are pages that PostgreSQL looked at.
	Buffers      float64 `json:"buffers"`
	Transactions float64 `json:"transactions"`
	RoundTrips   float64 `json:"roundTrips,omitempty"`
}

// Delivery is the comparison of broker and table.
type Delivery struct {
	Expected   int64 `json:"expected"`
	Arrived    int64 `json:"arrived"`
	Missing    int64 `json:"missing"`
	Duplicates int64 `json:"duplicates"`
	// Changed arrived with other bytes or attributes than were stored.
	Changed int64 `json:"changed"`
	// Unknown arrived although no row has their id.
	Unknown int64 `json:"unknown"`
	// Unsettled arrived but are not marked published.
	Unsettled int64 `json:"unsettled"`
	// Disordered arrived before an earlier event of their ordering key.
	Disordered int64 `json:"disordered"`
}

// Exact reports whether every event arrived once, unchanged, and is marked.
func (d Delivery) Exact() bool { return d == Delivery{Expected: d.Expected, Arrived: d.Expected} }

// Check is one criterion and its verdict.
type Check struct {
	Name string  `json:"name"`
	Want string  `json:"want"`
	Got  float64 `json:"got"`
	OK   bool    `json:"ok"`
}

// Passed reports whether no criterion failed.
func (r *Report) Passed() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK }) && (r.Against == nil || r.Against.Passed())
}

// Took notes how long all events took.
func (r *Report) Took(d time.Duration) {
	r.Seconds, r.EventsPerSecond = d.Seconds(), float64(r.Events)/d.Seconds()
}

// AtLeast adds a criterion.
func (r *Report) AtLeast(name string, got, want float64) {
	r.Checks = append(r.Checks, Check{name, fmt.Sprintf("≥ %.6g", want), got, got >= want})
}

// AtMost adds a criterion.
func (r *Report) AtMost(name string, got, want float64) {
	r.Checks = append(r.Checks, Check{name, fmt.Sprintf("≤ %.6g", want), got, got <= want})
}

// The criteria of every drain.
const (
	maxWrites       = 1.05
	maxPublisherMiB = 120.0
)

// checkShape adds what holds for every drain.
func (r *Report) checkShape() {
	r.AtMost("writes of an event's row", r.WritesPerEvent, maxWrites)
	if r.MemoryBytes > 0 {
		r.AtMost("publisher memory in MiB", float64(r.MemoryBytes)/(1<<20), maxPublisherMiB)
	}
}

// figure is one that two runs are compared by.
type figure struct {
	name string
	of   func(r *Report) *float64 // nil where the run has none
	more bool                     // is better
}

func figures() []figure {
	spent := func(field func(s *Spending) *float64) func(*Report) *float64 {
		return func(r *Report) *float64 {
			if r.Spent == nil {
				return nil
			}
			return field(r.Spent)
		}
	}
	latency := func(field func(p *Percentiles) *float64) func(*Report) *float64 {
		return func(r *Report) *float64 {
			if r.Latency == nil {
				return nil
			}
			return field(r.Latency)
		}
	}
	return []figure{
		{"events/s", func(r *Report) *float64 { return &r.EventsPerSecond }, true},
		{"µs of the database's processor", spent(func(s *Spending) *float64 { return &s.DatabaseMicros }), false},
		{"µs of the publishers'", spent(func(s *Spending) *float64 { return &s.PublisherMicros }), false},
		{"µs of the consumer's", spent(func(s *Spending) *float64 { return &s.ConsumerMicros }), false},
		{"bytes of WAL", func(r *Report) *float64 { return &r.WALBytesPerEvent }, false},
		{"buffers", spent(func(s *Spending) *float64 { return &s.Buffers }), false},
		{"transactions", spent(func(s *Spending) *float64 { return &s.Transactions }), false},
		{"round trips", spent(func(s *Spending) *float64 { return &s.RoundTrips }), false},
		{"ms to acknowledgement, p50", latency(func(p *Percentiles) *float64 { return &p.P50 }), false},
		{"ms to acknowledgement, p99", latency(func(p *Percentiles) *float64 { return &p.P99 }), false},
	}
}

// better has the better of each figure of two runs, and everything else of the faster.
func (r *Report) better(other *Report) *Report {
	if other == nil {
		return r
	}
	best, slower := r, other
	if other.EventsPerSecond > r.EventsPerSecond {
		best, slower = other, r
	}
	for _, f := range figures() {
		mine, theirs := f.of(best), f.of(slower)
		if mine != nil && theirs != nil && (*theirs < *mine) != f.more {
			*mine = *theirs
		}
	}
	return best
}

// WriteText prints the report for a person.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	r.write(w)
	for _, other := range r.Compared {
		fmt.Fprintln(w, "\ncompared with")
		other.write(w)
	}
	if r.Against != nil {
		fmt.Fprintf(w, "\nper event\t%s\t%s\tratio\n", r.Program, r.Against.Program)
		for _, f := range figures() {
			mine, theirs := f.of(r), f.of(r.Against)
			if mine != nil && theirs != nil && *mine > 0 && *theirs > 0 {
				fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%.3f\n", f.name, *mine, *theirs, *mine / *theirs)
			}
		}
	}
	if len(r.Checks) > 0 {
		fmt.Fprintln(w, "\nchecks")
	}
	for _, c := range r.Checks {
		verdict := "ok"
		if !c.OK {
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", verdict, c.Name, humanize.FormatFloat("#,###.###", c.Got), c.Want)
	}
	return w.Flush()
}

func (r *Report) write(w io.Writer) {
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	some := func(shown bool, name, format string, args ...any) {
		if shown {
			line(name, format, args...)
		}
	}
	count := func(n float64) string { return humanize.Comma(int64(n)) }
	line("mode", "%s", strings.TrimSpace(r.Mode+" "+r.Variant))
	some(r.Broker != "", "broker", "%s", r.Broker)
	some(r.Events > 0, "events", "%s of about %d bytes, %d publishers", count(float64(r.Events)), r.PayloadBytes, r.Publishers)
	some(r.Keys > 0, "keys", "%s", count(float64(r.Keys)))
	some(r.Head > 0, "head", "%s rows", count(float64(r.Head)))
	some(r.EventsPerSecond > 0, "rate", "%s events/s in %.2f s", count(r.EventsPerSecond), r.Seconds)
	if r.Latency != nil {
		line("commit to ack", "%s", r.Latency)
	}
	for name, c := range map[string]*Cost{"claim": r.Claim, "settle": r.Settle} {
		if c != nil && c.Calls > 0 {
			line(name, "%.1f µs/event; %d calls, %s", c.MicrosPerEvent, c.Calls, c.Duration)
		}
	}
	if extra, ok := r.Extra.(interface {
		lines(line func(name, format string, args ...any))
	}); ok {
		extra.lines(line)
	}
	if s := r.Spent; s != nil {
		line("processor", "database %.1f µs, publishers %.1f µs, consumer %.1f µs, bench with its fake %.1f µs per event",
			s.DatabaseMicros, s.PublisherMicros, s.ConsumerMicros, s.BenchMicros)
		line("database", "%.1f transactions and %.1f round trips per 1,000 events, %.1f buffers/event",
			1000*s.Transactions, 1000*s.RoundTrips, s.Buffers)
	}
	some(r.WALBytesPerEvent > 0, "WAL", "%s bytes/event", count(r.WALBytesPerEvent))
	some(r.WritesPerEvent > 0, "writes",
		"%.2f of an event's row; indexes of open events %.2f × their size before", r.WritesPerEvent, r.ClaimIndexGrowth)
	some(r.QueriesPerSecond > 0, "queries", "%.1f/s, %.2f %% of a processor", r.QueriesPerSecond, 100*r.CPUShare)
	some(r.MemoryBytes > 0, "memory", "%s at most", humanize.IBytes(uint64(max(r.MemoryBytes, 0))))
	some(r.LeasesLost > 0 || r.Troubles > 0, "mishaps",
		"%d leases lost, %d errors got over: the machine does not keep up", r.LeasesLost, r.Troubles)
	some(r.Delivery.Expected > 0, "delivery", "%s", r.Delivery)
	some(r.Server != "", "server", "PostgreSQL %s", r.Server)
}

// String prints them for a person.
func (p Percentiles) String() string {
	text := fmt.Sprintf("p50 %.1f, p95 %.1f, p99 %.1f", p.P50, p.P95, p.P99)
	if p.Max > 0 {
		text += fmt.Sprintf(", max %.1f", p.Max)
	}
	return text + " ms"
}

// String prints the comparison for a person.
func (d Delivery) String() string {
	if d.Exact() {
		return fmt.Sprintf("all %s arrived once, unchanged, and are marked", humanize.Comma(d.Expected))
	}
	return fmt.Sprintf("WRONG: of %d events %d missing, %d doubled, %d changed, %d unknown, %d not marked, %d out of order",
		d.Expected, d.Missing, d.Duplicates, d.Changed, d.Unknown, d.Unsettled, d.Disordered)
}

// metrics are samples of /metrics by name, summed over labels. A bucket's name is followed by its
// bound.
type metrics map[string]float64

// metrics are those of all publishers.
func (t *Trial) metrics(ctx context.Context) metrics {
	all := metrics{}
	for _, p := range t.publishers {
		p.check()
		all.read(rig.Must(p.get(ctx, "/metrics")))
	}
	return all
}

func (m metrics) read(text string) {
	for sample := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(sample), " ")
		if at := strings.LastIndexByte(sample, ' '); strings.Contains(series, "{") {
			series, value = sample[:max(at, 0)], strings.TrimSpace(sample[at+1:])
		}
		n, err := strconv.ParseFloat(value, 64)
		if series == "#" || err != nil {
			continue
		}
		name, labels, _ := strings.Cut(series, "{")
		if _, bound, isBucket := strings.Cut(labels, `le="`); isBucket {
			bound, _, _ = strings.Cut(bound, `"`)
			name += " " + bound
		}
		m[name] += n
	}
}

func (m metrics) add(other metrics) {
	for name, n := range other {
		m[name] += n
	}
}

// since is what has come since an earlier reading.
func (m metrics) since(before metrics) metrics {
	now := maps.Clone(m)
	for name, n := range before {
		now[name] -= n
	}
	return now
}

// cost sums a histogram of seconds up.
func (m metrics) cost(name string, events int) *Cost {
	return &Cost{int64(m[name+"_count"]), 1e6 * m[name+"_sum"] / float64(max(events, 1)), m.percentiles(name)}
}

// percentiles reads them off a histogram of seconds, as if times were spread evenly within a
// bucket.
func (m metrics) percentiles(name string) Percentiles {
	type bucket struct{ bound, count float64 }
	var buckets []bucket
	for series, n := range m {
		if bound, isBucket := strings.CutPrefix(series, name+"_bucket "); isBucket {
			buckets = append(buckets, bucket{rig.Must(strconv.ParseFloat(bound, 64)), n})
		}
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	at := func(q float64) float64 {
		rank, low, below := q*m[name+"_count"], 0.0, 0.0
		for _, b := range buckets {
			if b.count >= rank && b.count > below && !math.IsInf(b.bound, 1) {
				return 1000 * (low + (b.bound-low)*(rank-below)/(b.count-below))
			}
			if !math.IsInf(b.bound, 1) {
				low, below = b.bound, b.count
			}
		}
		return 1000 * low // beyond the last bound
	}
	return Percentiles{Count: int64(m[name+"_count"]), P50: at(.5), P95: at(.95), P99: at(.99)}
}

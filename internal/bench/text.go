package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// WriteText prints the report for a person.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	r.write(w)
	for _, other := range r.Compared {
		fmt.Fprintf(w, "\ncompared with %s\n", other.Mode)
		other.write(w)
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
	line("mode", "%s", r.Mode)
	line("broker", "%s", r.Broker)
	who := fmt.Sprintf("%d publishers in the bench's process", r.Publishers)
	switch {
	case r.Processes:
		who = fmt.Sprintf("%d publishers in processes of their own", r.Publishers)
	case r.Consume != nil:
		who = fmt.Sprintf("one consumer, %d at once", r.Consume.Concurrency)
	}
	line("events", "%s of about %d bytes, %s", humanize.Comma(int64(r.Events)), r.PayloadBytes, who)
	some(r.Head > 0, "head", "%s rows", humanize.Comma(int64(r.Head)))
	some(r.Variant != "", "variant",
		"%s; emitted %s events/s", r.Variant, humanize.Comma(int64(r.EmitsPerSecond)))
	some(r.Events > 0, "rate",
		"%s events/s in %.2f s", humanize.Comma(int64(r.EventsPerSecond)), r.Seconds)
	some(r.Latency != nil, "commit to ack", "%s", r.Latency)
	if r.Claim != nil && r.Claim.Rows > 0 {
		line("claim", "%.1f µs/row; %d statements, %s", r.Claim.MicrosPerRow, r.Claim.Statements, r.Claim.Duration)
	}
	if r.Settle != nil && r.Settle.Rows > 0 {
		line("settle", "%.1f µs/row; %d statements, %s", r.Settle.MicrosPerRow, r.Settle.Statements, r.Settle.Duration)
	}
	if c := r.Consume; c != nil {
		line("lease to mark", "%s", c.Handle)
		line("Redis", "%.2f round trips/event on %s", c.RedisRoundTrips, c.Redis)
		line("effects", "%s events, %s inbox rows, %s done marks, %d repeated; %d redeliveries turned away, %d failures", humanize.Comma(c.Effects),
			humanize.Comma(c.Inbox), humanize.Comma(c.Marks), c.Repeated, c.Redeliveries, c.Failures)
	}
	if extra, ok := r.Extra.(interface {
		Lines(line func(name, format string, args ...any))
	}); ok {
		extra.Lines(line)
	}
	if r.Spent != nil {
		line("processor", "%s per event", r.Spent)
		line("database", "%.1f transactions per 1,000 events, %.1f buffers/event", 1000*r.Spent.Transactions, r.Spent.Buffers)
		some(r.Spent.RoundTrips > 0, "round trips", "%.1f per 1,000 events", 1000*r.Spent.RoundTrips)
	}
	some(r.WALBytesPerEvent > 0, "WAL", "%s bytes/event", humanize.Comma(int64(r.WALBytesPerEvent)))
	some(r.WritesPerEvent > 0, "writes",
		"%.2f of an event's row; claim index %.2f × its size before", r.WritesPerEvent, r.ClaimIndexGrowth)
	some(r.QueriesPerSecond > 0, "queries",
		"%.1f/s, %.2f %% of a processor", r.QueriesPerSecond, 100*r.CPUShare)
	some(r.MemoryBytes > 0, "memory", "%s at most", humanize.IBytes(uint64(r.MemoryBytes)))
	some(r.LeasesLost > 0 || r.Troubles > 0, "mishaps",
		"%d leases lost, %d errors got over: the machine does not keep up", r.LeasesLost, r.Troubles)
	some(r.Delivery.Expected > 0, "delivery", "%s", r.Delivery)
	some(r.Server != "", "server", "PostgreSQL %s", r.Server)
}

// String prints them for a person.
func (p Percentiles) String() string {
	return fmt.Sprintf("p50 %.1f, p90 %.1f, p99 %.1f, max %.1f ms", p.P50, p.P90, p.P99, p.Max)
}

// String prints the comparison for a person.
func (d Delivery) String() string {
	if d.Exact() {
		return fmt.Sprintf("all %s arrived once, unchanged, and are marked", humanize.Comma(d.Expected))
	}
	var faults []string
	for _, f := range []struct {
		n    int64
		what string
	}{
		{d.Missing, "missing"}, {d.Duplicates, "doubled"}, {d.Changed, "changed"}, {d.Unknown, "unknown"}, {d.Unsettled, "not marked"},
		{d.Disordered, "out of order"},
	} {
		if f.n > 0 {
			faults = append(faults, fmt.Sprintf("%d %s", f.n, f.what))
		}
	}
	return fmt.Sprintf("WRONG: of %d events %s", d.Expected, strings.Join(faults, ", "))
}

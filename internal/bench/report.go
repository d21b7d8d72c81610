package bench

import (
	"slices"
	"strconv"
	"time"
)

// Report is the result of one run. Its JSON is a contract.
type Report struct {
	Mode         string `json:"mode"`
	Broker       string `json:"broker"`
	Events       int    `json:"events"`
	PayloadBytes int    `json:"payloadBytes"`
	Publishers   int    `json:"publishers"`
	Processes    bool   `json:"processes"`
	// Head is how many rows stood in the way, or lay behind.
	Head int `json:"head,omitempty"`
	// Keys is how many ordering keys the events shared.
	Keys int `json:"keys,omitempty"`
	// Variant is the installation that mode catalogue measured, EmitsPerSecond how fast its events
	// were written.
	Variant        string  `json:"variant,omitempty"`
	EmitsPerSecond float64 `json:"emitsPerSecond,omitempty"`

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
	// ClaimIndexGrowth is the size of the claim index over that before the drain.
	ClaimIndexGrowth float64 `json:"claimIndexGrowth,omitempty"`
	// MemoryBytes is the largest resident size of a publisher process or, when
	// they ran inside the bench, of the bench with the broker fake in it.
	MemoryBytes int64 `json:"memoryBytes"`
	// CPUShare and QueriesPerSecond are measured when idle.
	CPUShare         float64 `json:"cpuShare,omitempty"`
	QueriesPerSecond float64 `json:"queriesPerSecond,omitempty"`

	// Consume is what mode consume has instead of publishers' figures.
	Consume *Consumption `json:"consume,omitempty"`

	// Extra is what only a mode of the laboratory measures.
	Extra any `json:"extra,omitempty"`

	// HeadDisturbed counts rows in the way that a publisher charged or changed.
	HeadDisturbed int64 `json:"headDisturbed"`
	// LeasesLost counts rows whose settle came too late, Troubles the errors the
	// publishers got over. On a machine that keeps up both are zero.
	LeasesLost int64    `json:"leasesLost"`
	Troubles   int      `json:"troubles"`
	Delivery   Delivery `json:"delivery"`
	// Server is the version PostgreSQL reports.
	Server string `json:"server"`
	// Compared are the runs this one is judged against.
	Compared []*Report `json:"compared,omitempty"`
	Checks   []Check   `json:"checks,omitempty"`
}

// Percentiles are in milliseconds.
type Percentiles struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50Ms"`
	P90   float64 `json:"p90Ms"`
	P99   float64 `json:"p99Ms"`
	P999  float64 `json:"p999Ms"`
	Max   float64 `json:"maxMs"`
}

// Cost is what the database was asked for on the way in or out.
type Cost struct {
	Statements   int64       `json:"statements"`
	Rows         int64       `json:"rows"`
	MicrosPerRow float64     `json:"microsPerRow"`
	Duration     Percentiles `json:"duration"`
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
func (d Delivery) Exact() bool {
	return d.Arrived == d.Expected && d.Missing == 0 && d.Duplicates == 0 && d.Changed == 0 && d.Unknown == 0 && d.Unsettled == 0 && d.Disordered == 0
}

// Check is one criterion and its verdict.
type Check struct {
	Name string  `json:"name"`
	Want string  `json:"want"`
	Got  float64 `json:"got"`
	OK   bool    `json:"ok"`
}

// Passed reports whether no criterion failed.
func (r *Report) Passed() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK })
}

// Took notes how long all events took.
func (r *Report) Took(d time.Duration) {
	r.Seconds = d.Seconds()
	r.EventsPerSecond = float64(r.Events) / d.Seconds()
}

// AtLeast adds a criterion.
func (r *Report) AtLeast(name string, got, want float64) {
	r.Checks = append(r.Checks, Check{Name: name, Want: "≥ " + number(want), Got: got, OK: got >= want})
}

// AtMost adds a criterion.
func (r *Report) AtMost(name string, got, want float64) {
	r.Checks = append(r.Checks, Check{Name: name, Want: "≤ " + number(want), Got: got, OK: got <= want})
}

// number prints a bound without needless digits.
func number(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }

// The criteria of every drain.
const (
	maxWrites       = 1.05
	maxPublisherMiB = 120.0
)

// CheckShape adds what holds for every drain.
func (r *Report) CheckShape() {
	r.AtMost("writes of an event's row", r.WritesPerEvent, maxWrites)
	if r.Processes && r.MemoryBytes > 0 {
		r.AtMost("publisher memory in MiB", float64(r.MemoryBytes)/(1<<20), maxPublisherMiB)
	}
}

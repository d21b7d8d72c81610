package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Spending is what one event took. The processor times are zero where the system does not say, the
// database's also on a server that the bench did not start.
type Spending struct {
	DatabaseMicros float64 `json:"databaseMicros,omitempty"`
	// PublisherMicros and FakeMicros are told apart only where publishers have processes of their own;
	// otherwise BenchMicros has both.
	PublisherMicros float64 `json:"publisherMicros,omitempty"`
	FakeMicros      float64 `json:"fakeMicros,omitempty"`
	BenchMicros     float64 `json:"benchMicros,omitempty"`
	ConsumerMicros  float64 `json:"consumerMicros,omitempty"`
	// Buffers are pages that PostgreSQL looked at. RoundTrips are not known of processes of their own.
	Buffers      float64 `json:"buffers"`
	Transactions float64 `json:"transactions"`
	RoundTrips   float64 `json:"roundTrips,omitempty"`
}

// spent is what was used between two readings, per event. publishers is the processor time of those
// outside.
func spent(before, after Counters, publishers time.Duration, events int) *Spending {
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(events) }
	s := &Spending{
		Buffers:      float64(after.buffers-before.buffers) / float64(events),
		Transactions: float64(after.Transactions-before.Transactions) / float64(events),
	}
	if before.database > 0 {
		s.DatabaseMicros = per(after.database - before.database)
	}
	if own := per(after.self - before.self); publishers > 0 {
		s.PublisherMicros, s.FakeMicros = per(publishers), own
	} else {
		s.BenchMicros, s.RoundTrips = own, float64(after.roundTrips-before.roundTrips)/float64(events)
	}
	return s
}

// String prints it for a person.
func (s *Spending) String() string {
	var parts []string
	for _, p := range []struct {
		micros float64
		whose  string
	}{
		{s.DatabaseMicros, "database"}, {s.PublisherMicros, "publishers"}, {s.FakeMicros, "fake"}, {s.BenchMicros, "publishers and fake"},
		{s.ConsumerMicros, "consumer"},
	} {
		if p.micros > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f µs", p.whose, p.micros))
		}
	}
	return strings.Join(parts, ", ")
}

// clockTick is what /proc counts the time of ended children in.
const clockTick = 10 * time.Millisecond

// familyTime is the processor time of a process's children, those that ended included; zero where
// the system does not say.
func familyTime(pid int) (total time.Duration) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// Behind the name, which may hold blanks: state is field 3, cutime and cstime are 16 and 17.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, at := range []int{13, 14} {
		if ticks, err := strconv.ParseInt(fields[at], 10, 64); err == nil {
			total += time.Duration(ticks) * clockTick
		}
	}
	// Each thread lists the children that it has started.
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // fails only on a malformed pattern
	if len(threads) == 0 {
		return 0 // this kernel does not list them
	}
	for _, thread := range threads {
		children, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended, and another took its children over
		}
		for child := range strings.FieldsSeq(string(children)) {
			used, err := os.ReadFile("/proc/" + child + "/schedstat")
			if err != nil {
				continue // it has ended, and is counted above
			}
			first, _, _ := strings.Cut(string(used), " ")
			if ns, err := strconv.ParseInt(first, 10, 64); err == nil {
				total += time.Duration(ns)
			}
		}
	}
	return total
}

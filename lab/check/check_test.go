package check_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/lab/check"
	"github.com/outboxctl/outboxctl/lab/history"
)

func TestCleanRunPasses(t *testing.T) {
	t.Parallel()
	report := check.Check(cleanRun())
	require.Empty(t, report.Violations)
	require.Empty(t, report.Invalid)
	require.True(t, report.Valid)
	require.Empty(t, report.Violations)
}

func TestFigures(t *testing.T) {
	t.Parallel()
	f := check.Check(cleanRun()).Figures
	require.EqualValues(t, 7, f.Seed)
	require.Equal(t, []int{20, 4, 4}, []int{f.Committed, f.RolledBack, f.Unknown})
	require.Equal(t, []int{18, 1, 19, 1}, []int{f.Published, f.Removed, f.Stored, f.Duplicates})
	require.Equal(t, map[string]int{"expired lease": 1}, f.DuplicatesBy)
	require.Equal(t, map[string]int{inbox: 17, guarded: 17}, f.HandlerRuns)
	require.Equal(t, map[string]int{inbox: 17, guarded: 17}, f.Effects)
	require.Equal(t, map[string]int{"open": 1, "replayed": 1, "discarded": 1}, f.DeadLetters)
	require.Equal(t, map[string]int{"sigkill": 1, "redis_flush": 1, "db_restart": 1}, f.Faults)
	require.Equal(t, map[string]int{"after_publish": 1, "replay": 1}, f.Crashes)
	require.Equal(t, map[string]int{"claim": 25, "publish": 18, "failure": 2, "death": 3, "release": 1, "replay": 1, "delete": 1}, f.Changes)
	require.Equal(t, map[string]int{"dlq replay": 2, "stats": 1, "cleanup": 1}, f.Commands)
	require.Equal(t, 18, f.Wait.Events)
	require.Positive(t, f.Wait.Max)
}

// A pause that the next fault prolongs says nothing about recovering from the first.
func TestRecoveryLeavesOutWhatTheNextFaultHoldsUp(t *testing.T) {
	t.Parallel()
	h := cleanRun()
	report := check.Check(h)
	require.Equal(t, "sigkill", report.Figures.Recovered)
	longest := report.Figures.Recovery
	require.Positive(t, longest)

	ended := h.Faults[0].To
	h.Faults = append(h.Faults, history.Fault{Kind: "latency", Target: "publisher-2", From: ended.Add(time.Millisecond), To: ended.Add(longest / 2)})
	report = check.Check(h)
	require.Equal(t, "latency", report.Figures.Recovered)
	require.Equal(t, longest-longest/2, report.Figures.Recovery)
}

// What makes a run prove nothing is no violation.
func TestInvalidRuns(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		corrupt func(h *history.History)
		want    string
	}{
		{"too few events", func(h *history.History) { h.Run.MinEvents = 21 }, "20 committed events, needed are 21"},
		{"too few faults", func(h *history.History) { h.Run.MinFaults = 4 }, "3 faults, needed are 4"},
		{"a fault that failed", func(h *history.History) { h.Faults[2].Failed, h.Commands[2].Exit = "no such process", 0 }, "2 faults, needed are 3"},
		{"a kind of fault missing", func(h *history.History) { h.Run.NeedFaults = []string{"latency"} }, "no fault of kind latency"},
		{"a crash missing", func(h *history.History) { h.Run.NeedCrashes = []string{"half_settle"} }, "no process died in failpoint half_settle"},
		{"a failpoint survived", func(h *history.History) {
			find(h.Processes, func(p *history.Process) bool { return p.Exit == "killed" }).Exit = "0"
		}, "no process died in failpoint after_publish"},
		{"a command survived its failpoint", func(h *history.History) {
			find(h.Commands, func(c *history.Command) bool { return c.Failpoint == "replay" }).Exit = 0
		}, "no process died in failpoint replay"},
		{"ended too early", func(h *history.History) { h.Run.Ended = h.Run.LastFault.Add(lease + 9*time.Second) },
			"the final state was read at 12:01:19.000, a lease and 10s after the last fault is 12:01:20.000"},
		{"a change missing", func(h *history.History) {
			drop(&h.Changes, func(ch *history.Change) bool {
				return ch.EventID == failing && ch.After.Attempts == 1 && ch.After.Lease.By == ""
			})
		}, "changes of event failing are missing from the record"},
		{"a publisher that gave up waiting for Pub/Sub", gaveUp("rpc error: code = DeadlineExceeded desc = context deadline exceeded"), tooSlow},
		{"a publisher that gave up waiting for NATS", gaveUp("nats: timeout"), tooSlow},
		{"no stats", func(h *history.History) { h.Stats = nil }, "nothing was recorded that could break I13"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := cleanRun()
			tt.corrupt(h)
			report := check.Check(h)
			require.Equal(t, []string{tt.want}, report.Invalid)
			require.Empty(t, report.Violations)
			require.False(t, report.Valid)
			require.Contains(t, report.String(), tt.want)
		})
	}
}

const tooSlow = "1 messages were sent again because a publisher gave up waiting without a fault: the machine was too slow"

// gaveUp has a publisher fail for that reason with what the broker has stored.
func gaveUp(why string) func(*history.History) {
	return func(h *history.History) {
		storedThenFailed(h, history.Fault{Kind: "broker.error"})
		changeOf(h, failing, 1).After.LastError, changeOf(h, failing, 2).Before.LastError = why, why
		changeOf(h, failing, 2).After.LastError, changeOf(h, failing, 3).Before.LastError = why, why
	}
}

// A history that went through its file is judged as the one in memory.
func TestAFileGivesTheSameReport(t *testing.T) {
	t.Parallel()
	h := cleanRun()
	effectOf(h, guarded, plain).Count = 2
	read, err := history.Read(bytes.NewReader(recorded(t, h)))
	require.NoError(t, err)
	require.Equal(t, check.Check(h), check.Check(read))
}

func recorded(t *testing.T, h *history.History) []byte {
	t.Helper()
	var file bytes.Buffer
	rec := history.NewRecorder(&file)
	rec.Add(h.Run)
	addAll(rec, h.Transactions)
	addAll(rec, h.Arrivals)
	addAll(rec, h.Faults)
	addAll(rec, h.Processes)
	addAll(rec, h.Commands)
	addAll(rec, h.Handled)
	addAll(rec, h.Effects)
	addAll(rec, h.Changes)
	addAll(rec, h.Rows)
	addAll(rec, h.Removed)
	addAll(rec, h.Ledger)
	addAll(rec, h.Letters)
	addAll(rec, h.Audits)
	addAll(rec, h.Stats)
	addAll(rec, h.Resources)
	require.NoError(t, rec.Close())
	return file.Bytes()
}

func addAll[T any](rec *history.Recorder, list []T) {
	for _, v := range list {
		rec.Add(v)
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	h := cleanRun()
	effectOf(h, guarded, plain).Count = 2
	report := check.Check(h)
	text, err := json.Marshal(report)
	require.NoError(t, err)
	var back check.Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, report, back)
}

// The text stays readable however much is broken.
func TestTextShowsTheFirstOfMany(t *testing.T) {
	t.Parallel()
	h := cleanRun()
	for i := range h.Effects {
		h.Effects[i].Count = 2
	}
	text := check.Check(h).String()
	require.Contains(t, text, "FAILED: 34 violations\n")
	require.Contains(t, text, "I6   34 violations, 34 checked\n")
	require.Contains(t, text, "… and 24 more\n")
	require.Contains(t, text, "I5   0 violations, 3 checked")
	require.Contains(t, text, "20 committed, 4 rolled back, 4 of unknown outcome")
}

func BenchmarkCheck(b *testing.B) {
	h := cleanRun()
	bld := newBuilder()
	for i := range 50_000 {
		id := fmt.Sprintf("bulk-%d", i)
		bld.h.Transactions, bld.h.Rows = nil, bld.h.Rows[:0]
		bld.transaction("tx-"+id, "plain", history.Committed, true, deliver(id))
		for range 4 {
			bld.claim(id, "publisher-1")
			bld.fail(id, "publisher-1", "Unavailable")
		}
		bld.plain(id, "publisher-1")
		h.Transactions = append(h.Transactions, bld.h.Transactions...)
		h.Rows = append(h.Rows, bld.h.Rows...)
	}
	h.Ledger = append(h.Ledger, bld.h.Ledger...)
	h.Arrivals = append(h.Arrivals, bld.h.Arrivals...)
	h.Changes = append(h.Changes, bld.h.Changes...)
	h.Handled = append(h.Handled, bld.h.Handled...)
	h.Effects = append(h.Effects, bld.h.Effects...)
	b.ResetTimer()
	for b.Loop() {
		if report := check.Check(h); len(report.Violations) > 0 {
			b.Fatal(report.String())
		}
	}
}

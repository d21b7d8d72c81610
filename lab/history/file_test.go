package history_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/lab/history"
)

// everything is one observation of each kind, with every field set that a mistake in its name would lose.
func everything() *history.History {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	state := history.State{
		Lease: history.Lease{By: "owner", Until: at.Add(time.Second)}, Attempts: 2, LastError: "Unavailable: \"x\"\n",
		Published: at, Dead: at, Next: at, MessageID: "17", Passed: at,
	}
	row := history.Row{
		EventID: "e", Seq: 5, Type: "order_created", AggregateType: "checkout_group", AggregateID: "a", Namespace: "n", TenantID: "t", DedupeKey: "d",
		Payload: `{"a": "<&>` + "\u2028" + `é"}`, Headers: map[string]string{"trace": "t"}, OrderingKey: "default/k", CreatedAt: "2026-03-01T12:00:00.123456Z", State: state,
	}
	removed := row
	removed.RemovedAt = at
	return &history.History{
		Run: history.Run{
			Seed: 1<<64 - 1, Duration: time.Minute, Rate: 300, Lease: time.Second, CleanupAge: time.Minute, MaxInFlight: 9, ClockSkew: -time.Minute,
			Started: at, LastFault: at, Ended: at, MinEvents: 1, MinFaults: 2, NeedFaults: []string{"sigkill"}, NeedCrashes: []string{"claim"},
			Consumers: []string{"c"}, HandledTypes: []string{"order_created"}, InboxGuarded: []string{"c"},
		},
		Transactions: []history.Transaction{{
			ID: "t", At: at, Ended: at, Outcome: history.Unknown, How: "cut_commit",
			Events: []history.Intent{{EventID: "e", Type: "order_created", Topic: "domain", Expect: history.Retract, Line: "l"}},
		}},
		Arrivals: []history.Arrival{{
			At: at, Answered: at, Request: 3, EventID: "e", Topic: "domain", Stored: true, MessageID: "17", Code: "Unavailable",
			ReplyLost: true, Order: 4, OrderingKey: "default/k", Data: row.Payload, Attributes: map[string]string{"event_id": "e"},
		}},
		Faults:    []history.Fault{{Kind: "sigkill", Target: "publisher-1", Detail: "d", From: at, To: at, Failed: "gone"}},
		Processes: []history.Process{{At: at, Name: "publisher-1", PID: 7, Event: "exited", Exit: "killed", Failpoint: "claim", Unexpected: true}},
		Commands:  []history.Command{{At: at, Ended: at, Verb: "stats", Args: []string{"-o", "json"}, Exit: -1, Failpoint: "claim", Stdout: "{}", Stderr: "e"}},
		Handled:   []history.Handled{{At: at, Consumer: "c", EventID: "e"}},
		Effects:   []history.Effect{{Consumer: "c", EventID: "e", Count: 1}},
		Changes:   []history.Change{{At: at, Seq: 1, TxID: 2, EventID: "e", By: "publisher-1", Deleted: true, Before: state, After: history.State{}}},
		Rows:      []history.Row{row},
		Removed:   []history.Row{removed},
		Ledger:    []history.LedgerRow{{TxID: "t", EventID: "e", Line: "l", Data: "{}"}},
		Letters:   []history.Letter{{ID: "l", EventID: "e", Reason: "invalid_payload", State: "open", Attempts: 1, FailedAt: at, Payload: "{}"}},
		Audits:    []history.Audit{{ID: 1, At: at, Actor: "op", Action: "dlq.replay", Note: "r", Affected: 1, Detail: map[string]any{"eventIds": []any{"e"}}}},
		Stats:     []history.Stats{{Said: map[string]int64{"pending": 1}, Truth: map[string]int64{"pending": 2}}},
		Resources: []history.Resource{{Name: "goroutines", First: 1, Last: 2, Slack: 3}},
	}
}

func observations(h *history.History) []any {
	return []any{
		h.Run, h.Transactions[0], h.Arrivals[0], h.Faults[0], h.Processes[0], h.Commands[0], h.Handled[0], h.Effects[0], h.Changes[0],
		h.Rows[0], h.Removed[0], h.Ledger[0], h.Letters[0], h.Audits[0], h.Stats[0], h.Resources[0],
	}
}

func TestReadReturnsWhatWasRecorded(t *testing.T) {
	t.Parallel()
	want := everything()
	var file bytes.Buffer
	rec := history.NewRecorder(&file)
	rec.Add(history.Run{Seed: 1, NeedFaults: []string{"latency", "sigstop"}}) // replaced by the one written at the end
	for _, o := range observations(want) {
		rec.Add(o)
	}
	require.NoError(t, rec.Close())
	got, err := history.Read(&file)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 200
	var file bytes.Buffer
	rec := history.NewRecorder(&file)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				rec.Add(everything().Arrivals[0])
			}
		})
	}
	wg.Wait()
	require.NoError(t, rec.Close())
	h, err := history.Read(&file)
	require.NoError(t, err)
	require.Len(t, h.Arrivals, writers*each)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// A record that was not written makes the whole run worthless, so Close says so.
func TestCloseTellsOfARecordThatWasLost(t *testing.T) {
	t.Parallel()
	rec := history.NewRecorder(full{})
	rec.Add(history.Run{})
	require.EqualError(t, rec.Close(), "disk full")

	rec = history.NewRecorder(&bytes.Buffer{})
	rec.Add("text")
	rec.Add(history.Run{})
	require.EqualError(t, rec.Close(), "record a string: not an observation")
}

func TestReadNamesTheBrokenLine(t *testing.T) {
	t.Parallel()
	good := `{"kind":"effect","body":{"consumer":"c","eventId":"e","count":1}}` + "\n"
	for text, want := range map[string]string{
		good + `{"kind":"rumour","body":{}}`:             `line 2: rumour: unknown kind "rumour"`,
		good + good + `{"kind":"effect","body":{"count"`: "line 3",
		`{"kind":"effect","body":{"count":"many"}}`:      "line 1: effect",
	} {
		_, err := history.Read(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}

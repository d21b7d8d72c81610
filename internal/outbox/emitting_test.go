package outbox_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

const emitTestID = "018f3f6e-0000-7000-8000-00000000000a"

func eventLine(data string) string {
	return `{"type":"media_uploaded","aggregateId":"` + emitTestID + `","data":` + data + "}\n"
}

// eventLines is n good lines.
func eventLines(n int) io.Reader { return strings.NewReader(strings.Repeat(eventLine("{}"), n)) }

func storedEvents(t *testing.T, db *outboxtest.Database) int {
	t.Helper()
	var n int
	require.NoError(t, db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_events`).Scan(&n))
	return n
}

func TestEmitOneEvent(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	event := &emit.Event{Type: "media_uploaded", AggregateID: emitTestID, Data: []byte("{}"), DedupeKey: "k"}
	_, result, err := emitLines(t, nil, outbox.EmitParams{Event: event, DryRun: true})
	require.NoError(t, err, "a dry run needs no database")
	require.Equal(t, outbox.EmitResult{Events: 1}, result)

	first, result, err := emitLines(t, db.Pool, outbox.EmitParams{Event: event})
	require.NoError(t, err)
	require.Equal(t, outbox.EmitResult{Events: 1}, result)
	require.Equal(t, []outbox.Emitted{{ID: first[0].ID, Type: "media_uploaded", Topic: "domain"}}, first)
	second, result, err := emitLines(t, db.Pool, outbox.EmitParams{Event: event})
	require.NoError(t, err)
	require.Equal(t, outbox.EmitResult{Events: 1, Already: 1}, result)
	require.Equal(t, []outbox.Emitted{{ID: first[0].ID, Type: "media_uploaded", Topic: "domain", AlreadyEnqueued: true}}, second)
	require.Equal(t, 1, storedEvents(t, db))

	for name, tc := range map[string]struct {
		event emit.Event
		hint  string
	}{
		"unknown type": {emit.Event{Type: "odd", AggregateID: event.AggregateID, Data: event.Data}, "registry list shows"},
		"bad payload":  {emit.Event{Type: event.Type, AggregateID: event.AggregateID, Data: []byte(`{"x": 1}`)}, "registry list -o wide"},
	} {
		_, _, err := emitLines(t, nil, outbox.EmitParams{Event: &tc.event})
		kind, _ := fault.KindOf(err)
		require.Equal(t, fault.Usage, kind, name)
		require.Contains(t, fault.HintOf(err), tc.hint, name)
	}
	_, _, err = emitLines(t, outboxtest.EmptyDB(t).Pool, outbox.EmitParams{Event: event})
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Precondition, kind)
	require.Contains(t, fault.HintOf(err), "outboxctl migrate")
}

// Which lines are written depends on the lines alone, whatever the batches; what is reported is what is committed.
func TestEmitStreamBoundaries(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	lines := strings.Repeat(eventLine("{}"), outbox.EmitBatchEvents+50)
	for size, want := range map[int]int{
		1: outbox.EmitBatchEvents + 50, 7: (outbox.EmitBatchEvents + 50) / 7 * 7, outbox.EmitBatchEvents + 20: outbox.EmitBatchEvents + 20, outbox.EmitBatchEvents + 51: 0, 0: 0,
	} {
		before := storedEvents(t, db)
		committed, result, err := emitLines(t, db.Pool, outbox.EmitParams{Lines: strings.NewReader(lines + "{}\n" + lines), TxSize: size})
		require.ErrorContains(t, err, "line 551: ")
		kind, _ := fault.KindOf(err)
		require.Equal(t, want == 0, kind == fault.Usage, "%v", err)
		require.Equal(t, want > 0, kind == fault.Partial, "%v", err)
		require.Equal(t, want, storedEvents(t, db)-before, "transactions of %d", size)
		require.Len(t, committed, want)
		require.Equal(t, outbox.EmitResult{Events: want, Line: want}, result)
	}
	_, _, err := emitLines(t, db.Pool, outbox.EmitParams{Lines: eventLines(1), TxSize: -1})
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Usage, kind)
}

func TestEmitDryRunCountsAndNamesTheBadLine(t *testing.T) {
	t.Parallel()
	_, result, err := emitLines(t, nil, outbox.EmitParams{Lines: eventLines(1200), DryRun: true})
	require.NoError(t, err)
	require.Equal(t, outbox.EmitResult{Events: 1200}, result)
	_, result, err = emitLines(t, nil, outbox.EmitParams{Lines: strings.NewReader(eventLine("{}") + "\n" + eventLine("null") + eventLine("{}")), DryRun: true})
	require.ErrorContains(t, err, "line 3: ")
	require.Equal(t, outbox.EmitResult{Events: 1}, result)
}

// An error of the callback ends the stream; what was committed stays committed.
func TestEmitStopsWhenItsReportFails(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	broken := errors.New("broken pipe")
	result, err := (&outbox.Outbox{DB: db.Pool, Registry: registry.New()}).Emit(t.Context(), outbox.EmitParams{
		Lines: eventLines(6), TxSize: 2, Committed: func(events []outbox.Emitted) error {
			if events[0].Line == 3 {
				return broken
			}
			return nil
		},
	})
	require.ErrorIs(t, err, broken)
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Partial, kind)
	require.Equal(t, outbox.EmitResult{Events: 4, Line: 4}, result)
	require.Equal(t, 4, storedEvents(t, db))
}

func TestEmitTakesLongLines(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	line := func(letter string, n int) string {
		return `{"type":"ad_paused","aggregateId":"` + emitTestID + `","data":{"adId":"` + emitTestID + `","storeId":"` + emitTestID +
			`","at":"2026-03-04T05:06:07Z","changes":["` + strings.Repeat(letter, n) + `"]}}` + "\n"
	}
	run := func(text string, size int) error {
		_, _, err := emitLines(t, db.Pool, outbox.EmitParams{Lines: strings.NewReader(text), TxSize: size})
		return err
	}
	// Sixty megabytes of escapes are ten of text.
	require.NoError(t, run(eventLine("{}")+line(`\u0041`, 9_900_000)+eventLine("{}"), outbox.DefaultTxSize))
	require.Equal(t, 3, storedEvents(t, db))
	err := run(line("A", 10_000_000), outbox.DefaultTxSize)
	require.ErrorContains(t, err, "line 1: invalid event: data is too large: a message of 1000")
	// In one transaction: reading that much may take longer than the silence after which a feed is committed.
	err = run(eventLine("{}")+strings.Repeat(" ", outbox.MaxEventText+1), 0)
	require.ErrorContains(t, err, "line 2: longer than")
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Usage, kind)
}

// A feed that falls silent is committed: its events must not wait, and its transaction must not stay open.
func TestEmitCommitsWhenTheFeedFallsSilent(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	in, feed := io.Pipe()
	committed := make(chan int)
	done := make(chan error)
	go func() {
		_, err := (&outbox.Outbox{DB: db.Pool, Registry: registry.New()}).Emit(t.Context(), outbox.EmitParams{
			Lines: in, TxSize: outbox.DefaultTxSize, Committed: func(events []outbox.Emitted) error {
				committed <- len(events)
				return nil
			},
		})
		done <- err
	}()
	for n := 1; n <= 2; n++ {
		_, err := io.WriteString(feed, eventLine("{}"))
		require.NoError(t, err)
		require.Equal(t, 1, <-committed, "although the feed is still open")
		require.Equal(t, n, storedEvents(t, db))
	}
	require.NoError(t, feed.Close())
	require.NoError(t, <-done)
}

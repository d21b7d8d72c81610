package outbox_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
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
	valid, err := emitLines(t, nil, outbox.EmitParams{Event: event, DryRun: true})
	require.NoError(t, err, "a dry run needs no database")
	require.Len(t, valid, 1)

	first, err := emitLines(t, db.Pool, outbox.EmitParams{Event: event})
	require.NoError(t, err)
	require.Equal(t, []outbox.Emitted{{ID: first[0].ID, Type: "media_uploaded", Topic: "domain"}}, first)
	second, err := emitLines(t, db.Pool, outbox.EmitParams{Event: event})
	require.NoError(t, err)
	require.Equal(t, []outbox.Emitted{{ID: first[0].ID, Type: "media_uploaded", Topic: "domain", AlreadyEnqueued: true}}, second)
	require.Equal(t, 1, storedEvents(t, db))

	for name, tc := range map[string]struct {
		event emit.Event
		hint  string
	}{
		"unknown type": {emit.Event{Type: "odd", AggregateID: event.AggregateID, Data: event.Data}, "registry list shows"},
		"bad payload":  {emit.Event{Type: event.Type, AggregateID: event.AggregateID, Data: []byte(`{"x": 1}`)}, "registry list -o wide"},
	} {
		_, err := emitLines(t, nil, outbox.EmitParams{Event: &tc.event})
		kind, _ := fault.KindOf(err)
		require.Equal(t, fault.Usage, kind, name)
		require.Contains(t, fault.HintOf(err), tc.hint, name)
	}
	_, err = emitLines(t, outboxtest.EmptyDB(t).Pool, outbox.EmitParams{Event: event})
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Precondition, kind)
	require.Contains(t, fault.HintOf(err), "outboxctl migrate")
}

// All lines are written or none, however many batches they are.
func TestEmitStreamIsAllOrNothing(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	lines := strings.Repeat(eventLine("{}"), outbox.EmitBatchEvents+50)
	reported := 0
	written, err := emitLines(t, db.Pool, outbox.EmitParams{Lines: strings.NewReader(lines + "\n" + eventLine("{}")), Wrote: func(n int) { reported += n }})
	require.NoError(t, err)
	require.Len(t, written, outbox.EmitBatchEvents+51)
	require.Equal(t, outbox.EmitBatchEvents+52, written[len(written)-1].Line, "blank lines count")
	require.Equal(t, len(written), reported)
	require.Equal(t, len(written), storedEvents(t, db))

	written, err = emitLines(t, db.Pool, outbox.EmitParams{Lines: strings.NewReader(lines + "{}\n" + lines)})
	require.ErrorContains(t, err, "line 551: ")
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Usage, kind)
	require.Empty(t, written)
	require.Equal(t, outbox.EmitBatchEvents+51, storedEvents(t, db))
}

// The database refuses what the emitter knows nothing of; the line is named all the same.
func TestEmitNamesTheLineThatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON outbox_events FOR EACH ROW WHEN (NEW.aggregate_id::text LIKE '%0b') EXECUTE FUNCTION refuse()`)
	require.NoError(t, err)
	_, err = emitLines(t, db.Pool, outbox.EmitParams{
		Lines: strings.NewReader(strings.Repeat(eventLine("{}"), outbox.EmitBatchEvents) + eventLine("{}") + "\n" + strings.Replace(eventLine("{}"), "00a", "00b", 1))})
	require.ErrorContains(t, err, "line 503: ")
	require.ErrorContains(t, err, "outbox_events did not take the row")
	require.Zero(t, storedEvents(t, db))
}

func TestEmitDryRunCountsAndNamesTheBadLine(t *testing.T) {
	t.Parallel()
	valid, err := emitLines(t, nil, outbox.EmitParams{Lines: eventLines(1200), DryRun: true})
	require.NoError(t, err)
	require.Len(t, valid, 1200)
	_, err = emitLines(t, nil, outbox.EmitParams{Lines: strings.NewReader(eventLine("{}") + "\n" + eventLine("null") + eventLine("{}")), DryRun: true})
	require.ErrorContains(t, err, "line 3: ")
}

func TestEmitTakesLongLines(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	line := func(letter string, n int) string {
		return `{"type":"ad_paused","aggregateId":"` + emitTestID + `","data":{"adId":"` + emitTestID + `","storeId":"` + emitTestID +
			`","at":"2026-03-04T05:06:07Z","changes":["` + strings.Repeat(letter, n) + `"]}}` + "\n"
	}
	run := func(text string) error {
		_, err := emitLines(t, db.Pool, outbox.EmitParams{Lines: strings.NewReader(text)})
		return err
	}
	// Sixty megabytes of escapes are ten of text, and go alone.
	require.NoError(t, run(eventLine("{}")+line(`\u0041`, 9_900_000)+eventLine("{}")))
	require.Equal(t, 3, storedEvents(t, db))
	err := run(line("A", 10_000_000))
	require.ErrorContains(t, err, "line 1: invalid event: data is too large: a message of 1000")
	err = run(eventLine("{}") + strings.Repeat(" ", outbox.MaxEventText+1))
	require.ErrorContains(t, err, "line 2: longer than")
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Usage, kind)
}

package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

type sampleRow struct {
	ID    string    `json:"id"`
	Error string    `json:"errorMessage"`
	At    time.Time `json:"failedAt"`
}

func sampleView() View[sampleRow] {
	return View[sampleRow]{
		ID: func(r sampleRow) string { return r.ID },
		Columns: []Column[sampleRow]{
			{Head: "id", Cell: func(r sampleRow, s *CellStyle) string { return r.ID }},
			{Head: "error", Field: "errorMessage", Cell: func(r sampleRow, s *CellStyle) string { return r.Error }},
			{Head: "failed", Field: "failedAt", Wide: true, Cell: func(r sampleRow, s *CellStyle) string { return s.Time(r.At) }},
		},
	}
}

func render(t *testing.T, tty bool, width int, format string, rows []sampleRow) string {
	t.Helper()
	var out bytes.Buffer
	app := NewApp(Streams{Out: &out, OutTTY: tty, Width: width}, nil)
	app.Now = func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	require.NoError(t, WriteList(app, Output{Format: format}, sampleView(), rows))
	return out.String()
}

func TestOutputFormats(t *testing.T) {
	t.Parallel()
	rows := []sampleRow{
		{"a", "=1+1", time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)},
		{"b", "two\nlines", time.Date(2026, 3, 1, 10, 0, 0, 5, time.UTC)},
	}
	for name, tc := range map[string]struct {
		tty    bool
		format string
		want   string
	}{
		"table on a pipe": {false, FormatTable, "id\terrorMessage\na\t=1+1\nb\ttwo^Jlines\n"},
		"wide on a pipe":  {false, FormatWide, "id\terrorMessage\tfailedAt\na\t=1+1\t2026-03-01T11:00:00Z\nb\ttwo^Jlines\t2026-03-01T10:00:00.000000005Z\n"},
		"id":              {true, FormatID, "a\nb\n"},
		"jsonl":           {true, FormatJSONL, `{"id":"a","errorMessage":"=1+1","failedAt":"2026-03-01T11:00:00Z"}` + "\n" + `{"id":"b","errorMessage":"two\nlines","failedAt":"2026-03-01T10:00:00.000000005Z"}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, render(t, tc.tty, 80, tc.format, rows))
		})
	}
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		var back []sampleRow
		require.NoError(t, json.Unmarshal([]byte(render(t, false, 0, FormatJSON, rows)), &back))
		require.Equal(t, rows, back)
	})
	t.Run("table on a terminal", func(t *testing.T) {
		t.Parallel()
		got := render(t, true, 80, FormatWide, rows)
		require.Regexp(t, `^ID +ERROR +FAILED`, got)
		require.Contains(t, got, "1h")
	})
}

func TestEmptyListIsStillAList(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[]\n", render(t, false, 0, FormatJSON, nil))
	require.Empty(t, render(t, false, 0, FormatJSONL, nil))
	require.Equal(t, "id\terrorMessage\n", render(t, false, 0, FormatTable, nil))
}

func TestTableFitsTheTerminalAndAPipeIsNeverCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very long ", 30)
	rows := []sampleRow{{ID: "a", Error: long}}
	for line := range strings.Lines(render(t, true, 60, FormatTable, rows)) {
		require.LessOrEqual(t, ansi.StringWidth(strings.TrimRight(line, " \n")), 60)
	}
	require.Contains(t, render(t, false, 60, FormatTable, rows), long)
}

type letterRow struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Cause string `json:"cause"`
	Error string `json:"error"`
}

// The error gets what room the others leave; a column that needs a wider terminal is left out, whatever the rows hold.
func TestTheErrorGetsTheRoomThatIsLeft(t *testing.T) {
	t.Parallel()
	view := View[letterRow]{Columns: []Column[letterRow]{
		{Head: "id", Whole: true, Cell: func(r letterRow, _ *CellStyle) string { return r.ID }},
		{Head: "type"},
		{Head: "cause", From: 100, Style: func(letterRow) Style { return StyleGood }},
		{Head: "error", Rest: true, Cell: func(r letterRow, s *CellStyle) string { return s.Error(r.Error, r.Type) }},
	}}
	rows := []letterRow{
		{"01890a5d-ac96", "license_status_changed", "invalid_payload", "invalid payload of license_status_changed: data.storeId is required by the schema of this type"},
		{"01890a5d-ac97", "order_canceled", "aggregate_mismatch", "event type order_canceled belongs to aggregate vendor_order, not to store"},
	}
	for width, want := range map[int]string{
		33: "ID             TYPE      ERROR\n01890a5d-ac96  license…  data.st…\n01890a5d-ac97  order_c…  event t…\n",
		60: "ID             TYPE                ERROR\n01890a5d-ac96  license_status_ch…  data.storeId is required…\n01890a5d-ac97  order_canceled      event type order_cancele…\n",
		80: "ID             TYPE                    ERROR\n" +
			"01890a5d-ac96  license_status_changed  data.storeId is required by the schema o…\n" +
			"01890a5d-ac97  order_canceled          event type order_canceled belongs to agg…\n",
		0: "ID             TYPE                    CAUSE               ERROR\n" +
			"01890a5d-ac96  license_status_changed  invalid_payload     data.storeId is required by the schema of this type\n" +
			"01890a5d-ac97  order_canceled          aggregate_mismatch  event type order_canceled belongs to aggregate vendor_order, not to store\n",
	} {
		var out, said bytes.Buffer
		app := NewApp(Streams{Out: &out, Err: &said, OutTTY: true, Width: width}, []string{"NO_COLOR=1"})
		require.NoError(t, WriteList(app, Output{Format: FormatTable}, view, rows))
		require.Equal(t, want, out.String(), width)
		if width > 0 {
			require.Equal(t, "hidden columns: cause (-o wide shows all)\n", said.String(), width)
		}
	}
	var out bytes.Buffer
	app := NewApp(Streams{Out: &out, OutTTY: true, Width: 120}, []string{"CLICOLOR_FORCE=1"})
	require.NoError(t, WriteList(app, Output{Format: FormatTable}, view, rows))
	require.Contains(t, out.String(), "\x1b[32minvalid_payload\x1b[0m", "painted after it is cut")
}

// Lines that are printed one by one are aligned by what came before them.
func TestLinesStandUnderEachOther(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewLineWriter(NewApp(Streams{Out: &out, OutTTY: true, Width: 30}, nil), View[letterRow]{Columns: []Column[letterRow]{
		{Head: "id", Cell: func(r letterRow, s *CellStyle) string { return s.ID(r.ID) }},
		{Head: "type", Cell: func(r letterRow, _ *CellStyle) string { return r.Type }},
		{Head: "cause", Wide: true, Cell: func(r letterRow, _ *CellStyle) string { return r.Cause }},
		{Head: "error", Cell: func(r letterRow, _ *CellStyle) string { return r.Error }},
	}})
	for _, row := range []letterRow{{"a", "long_one", "x", "no"}, {"b", "", "x", "nothing at all was sent"}, {"01890a5d-ac96-774b-bcce-b302099a8057", "", "", ""}} {
		require.NoError(t, w.Write(row))
	}
	require.Equal(t, "a  long_one  no\nb            nothing at all w…\n01890a5d-ac96-774b\n", out.String())
}

// A column without a cell of its own shows its field, by what that is; one that is the same in every row stays.
func TestACellShowsItsField(t *testing.T) {
	t.Parallel()
	type part struct {
		Count int `json:"count"`
	}
	type row struct {
		part

		ID   string     `json:"id"`
		At   time.Time  `json:"createdAt"`
		End  *time.Time `json:"endedAt"`
		Note *string    `json:"note"`
	}
	now, note := time.Unix(1_700_000_000, 0), "why"
	var out bytes.Buffer
	app := NewApp(Streams{Out: &out, OutTTY: true, Width: 60}, nil)
	app.Now = func() time.Time { return now }
	view := View[row]{Columns: []Column[row]{{Head: "id"}, {Head: "made", Field: "createdAt"}, {Head: "ended", Field: "endedAt"}, {Head: "count"}, {Head: "note"}}}
	rows := []row{{part{1234}, "a", now.Add(-time.Hour), &now, &note}, {part{1234}, "b", now.Add(-time.Hour), nil, nil}}
	require.NoError(t, WriteList(app, Output{Format: FormatTable}, view, rows))
	require.Equal(t, "ID  MADE  ENDED  COUNT  NOTE\na   1h    0s     1,234  why\nb   1h           1,234\n", out.String())
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 25*time.Second + 999*time.Millisecond: "25s", 3*time.Minute + 59*time.Second: "3m", 23 * time.Hour: "23h", 49 * time.Hour: "2d", -5 * time.Minute: "in 5m",
	} {
		require.Equal(t, want, Age(d))
	}
}

func TestHostileTextReachesNoTerminal(t *testing.T) {
	t.Parallel()
	rows := []sampleRow{{ID: "\x1b[2J", Error: "\x1b]0;title\a \u009b31m \u202Egnp.exe \U000E0041 \xff"}}
	for _, format := range ListFormats() {
		for _, tty := range []bool{true, false} {
			got := render(t, tty, 120, format, rows)
			for _, bad := range []string{"\x1b", "\u009b", "\u202E", "\a", "\xff"} {
				require.NotContains(t, got, bad, "%s, terminal %v", format, tty)
			}
		}
	}
}

package cmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/outboxctl/outboxctl/internal/doctor"
)

type sampleRow struct {
	ID    string    `json:"id"`
	Error string    `json:"errorMessage"`
	At    time.Time `json:"failedAt"`
}

func sampleView() view[sampleRow] {
	return view[sampleRow]{
		id: func(r sampleRow) string { return r.ID },
		columns: []column[sampleRow]{
			{head: "id", cell: func(r sampleRow, s *cellStyle) string { return r.ID }},
			{head: "error", cell: func(r sampleRow, s *cellStyle) string { return r.Error }},
			{head: "failed", wide: true, cell: func(r sampleRow, s *cellStyle) string { return s.time(r.At) }},
		},
	}
}

func render(t *testing.T, tty bool, width int, format string, rows []sampleRow) string {
	t.Helper()
	var out bytes.Buffer
	app := newApp(Streams{Out: &out, OutTTY: tty, Width: width}, nil)
	app.Now = func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	require.NoError(t, writeList(app, format, sampleView(), rows))
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
		"table on a pipe": {false, formatTable, "id\terror\na\t=1+1\nb\ttwo^Jlines\n"},
		"wide on a pipe":  {false, formatWide, "id\terror\tfailed\na\t=1+1\t2026-03-01T11:00:00Z\nb\ttwo^Jlines\t2026-03-01T10:00:00.000000005Z\n"},
		"csv":             {true, formatCSV, "id,error,failed\na,'=1+1,2026-03-01T11:00:00Z\nb,two^Jlines,2026-03-01T10:00:00.000000005Z\n"},
		"id":              {true, formatID, "a\nb\n"},
		"jsonl":           {true, formatJSONL, `{"id":"a","errorMessage":"=1+1","failedAt":"2026-03-01T11:00:00Z"}` + "\n" + `{"id":"b","errorMessage":"two\nlines","failedAt":"2026-03-01T10:00:00.000000005Z"}` + "\n"},
		"yaml":            {true, formatYAML, "- errorMessage: =1+1\n  failedAt: \"2026-03-01T11:00:00Z\"\n  id: a\n- errorMessage: |-\n    two\n    lines\n  failedAt: \"2026-03-01T10:00:00.000000005Z\"\n  id: b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, render(t, tc.tty, 80, tc.format, rows))
		})
	}
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		var back []sampleRow
		require.NoError(t, json.Unmarshal([]byte(render(t, false, 0, formatJSON, rows)), &back))
		require.Equal(t, rows, back)
	})
	t.Run("table on a terminal", func(t *testing.T) {
		t.Parallel()
		got := render(t, true, 80, formatWide, rows)
		require.Regexp(t, `^ID +ERROR +FAILED`, got)
		require.Contains(t, got, "1 hour ago")
	})
}

func TestEmptyListIsStillAList(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[]\n", render(t, false, 0, formatJSON, nil))
	require.Equal(t, "[]\n", render(t, false, 0, formatYAML, nil))
	require.Empty(t, render(t, false, 0, formatJSONL, nil))
	require.Equal(t, "id,error,failed\n", render(t, false, 0, formatCSV, nil))
}

func TestTableFitsTheTerminalAndAPipeIsNeverCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very long ", 30)
	rows := []sampleRow{{ID: "a", Error: long}}
	for line := range strings.Lines(render(t, true, 60, formatTable, rows)) {
		require.LessOrEqual(t, ansi.StringWidth(strings.TrimRight(line, " \n")), 60)
	}
	require.Contains(t, render(t, false, 60, formatTable, rows), long)
}

// A finding that is cut helps nobody.
func TestFindingsAreBrokenIntoLinesNotCut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	app := newApp(Streams{Out: &out, OutTTY: true, Width: 80}, []string{"NO_COLOR=1"})
	finding := doctor.Finding{
		Area: "database", Check: "indexes", Level: doctor.Fail, Message: "index outbox_dlq_open_idx is missing",
		Remedy: "CREATE INDEX CONCURRENTLY outbox_dlq_open_idx ON outbox_dlq USING btree (failed_at DESC, id DESC) WHERE state = 'open'::text",
	}
	require.NoError(t, writeList(app, formatTable, doctorView(), []doctor.Finding{finding}))
	require.NotContains(t, out.String(), "…")
	var words []string
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, ansi.StringWidth(strings.TrimRight(line, "\n")), 80)
		words = append(words, strings.Fields(line)...)
	}
	for _, word := range strings.Fields(finding.Message + " " + finding.Remedy) {
		require.Contains(t, words, word)
	}
}

func TestHostileTextReachesNoTerminal(t *testing.T) {
	t.Parallel()
	rows := []sampleRow{{ID: "\x1b[2J", Error: "\x1b]0;title\a \u009b31m \u202Egnp.exe \U000E0041 \xff"}}
	for _, format := range listFormats() {
		for _, tty := range []bool{true, false} {
			got := render(t, tty, 120, format, rows)
			for _, bad := range []string{"\x1b", "\u009b", "\u202E", "\a", "\xff"} {
				require.NotContains(t, got, bad, "%s, terminal %v", format, tty)
			}
		}
	}
	rows[0].Error = strings.ToValidUTF8(rows[0].Error, "\uFFFD") // as every encoder has it
	var back []sampleRow
	require.NoError(t, yaml.Unmarshal([]byte(render(t, true, 120, formatYAML, rows)), &back))
	require.Equal(t, rows, back, "YAML keeps the value")
}

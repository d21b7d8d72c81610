package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A log is read on terminals as well: what reorders text or starts an escape sequence is escaped, and means the same.
func TestLogsHoldNothingATerminalActsOn(t *testing.T) {
	t.Parallel()
	const hostile = "a\u009b31m\u202eb\u2028\U000E0041\x7f\x1b[2J"
	var out bytes.Buffer
	log := (&App{Streams: Streams{Err: &out}}).Log()
	log.Info().Str(hostile, hostile).Err(errorText(hostile)).Msg(hostile)
	for _, r := range "\u009b\u202e\u2028\U000E0041\x7f\x1b" {
		require.NotContains(t, out.String(), string(r), "%U", r)
	}
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, []any{hostile, hostile, hostile}, []any{line["message"], line["error"], line[hostile]})
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)$`, line["time"])
}

type errorText string

func (e errorText) Error() string { return string(e) }

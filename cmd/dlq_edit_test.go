package cmd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// editor makes a script that stands for the person's editor, and returns the folder for temporary files.
func (r *dlqRig) editor(script string) (temporary string) {
	r.t.Helper()
	name, temporary := filepath.Join(r.t.TempDir(), "editor"), r.t.TempDir()
	require.NoError(r.t, os.WriteFile(name, []byte(script), 0o600))
	r.env = append(r.env, "EDITOR=sh "+name+" --wait", "TMPDIR="+temporary)
	return temporary
}

const canceledOrder = `{"orderId": "7f2c0b60-0000-4000-8000-000000000001", "checkoutGroupId": "7f2c0b60-0000-4000-8000-000000000002", "canceledAt": "2026-03-01T12:00:00Z"}`

func TestADeadEventIsCorrectedInAnEditor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script, answer string
		code           int
		says           []string
		corrected      int
	}{
		"valid and confirmed": {
			script: `grep -q '^# It died of max_attempts: no$' "$2" && echo '` + canceledOrder + `' > "$2"`, answer: "y\n",
			says: []string{"+   \"canceledAt\": ", "send the corrected event and discard the dead letter in test_"}, corrected: 1,
		},
		"valid and not confirmed": {script: `echo '` + canceledOrder + `' > "$2"`, answer: "n\n", code: 6, says: []string{"nothing was changed"}},
		"unchanged":               {script: `exit 0`, says: []string{"the payload is as it was: nothing was changed"}},
		"the editor fails":        {script: `echo '` + canceledOrder + `' > "$2"; exit 3`, code: 1, says: []string{"exit status 3; nothing was changed"}},
		// It opens again with what is wrong at the top; the second time a valid payload is written.
		"corrected after a mistake": {
			script: `if grep -q '^# .*data.orderId' "$2"; then echo '` + canceledOrder + `' > "$2"; else echo '{"orderId": 8}' > "$2"; fi`, answer: "y\n",
			corrected: 1, says: []string{"-   \"orderId\": 7"},
		},
		"given up after a mistake": {
			script: `grep -q '"orderId": 8' "$2" || echo '{"orderId": 8}' > "$2"`, code: 2,
			says: []string{"error: ", "data.orderId", "nothing was changed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newDLQRig(t)
			r.die(1, "no", `{"data": {"orderId": 7}}`)
			// Editors keep copies beside the file. Other users may read none of it.
			temporary := r.editor(`cp "$2" "$2~"; test -n "$(find "$2" -perm 600)" -a -n "$(find "${2%/*}" -prune -perm 700)" || exit 9; ` + tc.script)
			code, _, stderr := r.run(true, tc.answer, "dlq", "edit", r.id(), "--color", "never")
			require.Equal(t, tc.code, code, stderr)
			for _, text := range tc.says {
				require.Contains(t, stderr, text)
			}
			left, err := filepath.Glob(temporary + "/*")
			require.NoError(t, err)
			require.Empty(t, left)
			require.Equal(t, tc.corrected, r.count("SELECT count(*) FROM outbox_events WHERE headers ? 'corrects'"))
			require.Equal(t, tc.corrected, r.count("SELECT count(*) FROM outbox_audit WHERE action = 'dlq.edit'"))
		})
	}
}

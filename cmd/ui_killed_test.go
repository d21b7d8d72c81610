package cmd_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page is killed in the middle of a run, without a chance to say so. Its lease tells; the command line resumes the run, and
// no row is changed twice.
func TestARunOfAKilledPageIsResumed(t *testing.T) {
	t.Parallel()
	r := newDLQRig(t)
	const rows = 4000
	r.die(rows, "no route to broker", `{"data": {}}`)
	page := startProcess(t, r.env, "ui", "--addr", "127.0.0.1:0", "--allow-changes", "--auth", "none")
	var address string
	eventually(t, "the page answers", func() bool {
		if found := regexp.MustCompile(`serving (http://\S+)/ `).FindStringSubmatch(page.output()); found != nil {
			address = found[1]
		}
		return address != ""
	})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	post := func(path string, fields url.Values) (to string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+path, strings.NewReader(fields.Encode()))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusSeeOther, response.StatusCode)
		return response.Header.Get("Location")
	}
	id := strings.TrimPrefix(post("/plans", url.Values{"action": {"replay"}, "filter.type": {"order_canceled"}, "note": {"broker is back"}}), "/plans/")
	eventually(t, "the plan is made", func() bool { return r.count("SELECT count(*) FROM outbox_plans WHERE state = 'ready'") == 1 })
	post("/plans/"+id+"/run", url.Values{"confirm.count": {strconv.Itoa(rows)}, "confirm.database": {r.db.Name}, "rate": {"1000"}})
	eventually(t, "rows are replayed", func() bool { return r.count("SELECT coalesce(sum(done), 0) FROM outbox_plan_chunks") > 0 })
	client.CloseIdleConnections()
	page.signal(syscall.SIGKILL)
	page.wait()
	done := r.count("SELECT coalesce(sum(done), 0) FROM outbox_plan_chunks")
	require.Less(t, done, rows, "killed too late to prove anything")

	code, _, stderr := r.run(false, "", "plan", "run", id, "--yes")
	require.Equal(t, 4, code, "it may still be alive: %s", stderr)
	r.exec("UPDATE outbox_plans SET lease_until = now() - interval '1 second'") // its time is over
	_, stdout, _ := r.run(false, "", "plan", "show", id)
	require.Contains(t, stdout, "interrupted")
	require.Contains(t, stdout, "its runner is gone")
	code, _, stderr = r.run(false, "", "plan", "run", id, "--yes")
	require.Equal(t, 0, code, stderr)
	require.Equal(t, rows, r.count("SELECT sum(c.done) FROM outbox_plan_chunks AS c JOIN outbox_plans AS p ON p.id = c.plan_id WHERE p.state = 'done'"))
	require.Equal(t, rows, r.count("SELECT sum(affected) FROM outbox_audit"))
	require.Equal(t, rows, r.count("SELECT count(DISTINCT x) FROM outbox_audit, jsonb_array_elements_text(detail -> 'eventIds') AS x"))
	require.Equal(t, 2, r.count("SELECT count(DISTINCT coalesce(detail ->> 'via', 'command line')) FROM outbox_audit"))
}

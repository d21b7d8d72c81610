package ui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	deadID    = "00000000-0000-7000-8000-0000000000d3"
	eventID   = "00000000-0000-7000-8000-0000000000e3"
	formType  = "application/x-www-form-urlencoded"
	jsonType  = "application/json"
	manyDead  = 2100
	wantState = 20 * time.Second
)

// operators lets an operator named ann change things.
func operators(c *ui.Config) {
	c.Pool, c.AllowChanges = c.ReadPool, true
	c.Identify = func(*http.Request) (ui.Identity, error) {
		return ui.Identity{Name: "ann@example.com", Role: ui.Operator, Auth: "test"}, nil
	}
}

// send sends a body and follows no redirect.
func (b *bundle) send(method, path, contentType, body string, headers ...string) (status int, header http.Header, text string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.url+b.base+path, strings.NewReader(body))
	require.NoError(b.t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if request.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	require.NoError(b.t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	return response.StatusCode, response.Header, string(content)
}

// form sends a form and returns where it leads.
func (b *bundle) form(path string, pairs ...string) (status int, to, body string) {
	b.t.Helper()
	fields := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		fields.Add(pairs[i], pairs[i+1])
	}
	status, header, body := b.send(http.MethodPost, path, formType, fields.Encode())
	return status, strings.TrimPrefix(header.Get("Location"), b.base), body
}

// api sends JSON and reads a plan.
func (b *bundle) api(method, path, body string) (status int, plan dlq.Frozen, text string) {
	b.t.Helper()
	status, _, text = b.send(method, "/api/v1"+path, jsonType, body)
	if status < http.StatusBadRequest && text != "" {
		require.NoError(b.t, json.Unmarshal([]byte(text), &plan), text)
	}
	return status, plan, text
}

func (b *bundle) count(sql string, args ...any) (n int64) {
	b.t.Helper()
	require.NoError(b.t, b.db.Pool.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// reaches waits until a plan is in a state.
func (b *bundle) reaches(id, state string) (plan dlq.Frozen) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		_, _, body := b.get("/api/v1/plans/" + id)
		return json.Unmarshal([]byte(body), &plan) == nil && plan.State == state
	}, wantState, tick, "plan %s is to be %s", id, state)
	return plan
}

// kill writes n more open dead letters of one cause.
func (b *bundle) kill(n int, reason string) {
	b.t.Helper()
	_, err := b.db.Pool.Exec(b.t.Context(), `
WITH e AS (
    INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, dead_at, attempt_count)
    SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', now(), 10 FROM generate_series(1, $1::int)
    RETURNING id, event_type, aggregate_type, aggregate_id, payload_json)
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, topic, fingerprint)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, $2::text::outbox_dlq_reason, 'many', 10, 'domain', 'f2' FROM e`, n, reason)
	require.NoError(b.t, err)
}

// One row: from its page to the plan, a confirmation that the server checks, and a run that is audited.
func TestOneRowIsReplayed(t *testing.T) {
	b := setup(t, operators)
	audits := func() int64 { return b.count(`SELECT count(*) FROM outbox_audit`) }
	before := audits()
	_, _, body := b.get("/dead-letters/" + deadID)
	require.Contains(t, body, `value="replay"`)
	status, plan, _ := b.form("/plans", "action", "replay", "id", deadID)
	require.Equal(t, http.StatusSeeOther, status)
	require.Regexp(t, `^/plans/[0-9a-f-]{36}$`, plan)
	id := strings.TrimPrefix(plan, "/plans/")
	status, _, body = b.get(plan)
	require.Equal(t, http.StatusOK, status)
	for _, want := range []string{"Replay 1 dead letter?", "order_canceled", eventID, "max_attempts", "No publisher is alive", "outboxctl run resume " + id, "redis.url is not set"} {
		require.Contains(t, body, want)
	}
	name := regexp.MustCompile(`name="database" value="([^"]*)"`).FindStringSubmatch(body)[1]

	for want, fields := range map[int][]string{
		http.StatusConflict:   {"count", "2", "database", name, "note", "x"},
		http.StatusBadRequest: {"count", "1", "database", name, "note", " "},
	} {
		status, _, body := b.form(plan+"/run", fields...)
		require.Equal(t, want, status, body)
		require.Contains(t, body, "Nothing was changed")
		require.Contains(t, body, `href="`+plan+`"`, "a way back")
	}
	status, _, _ = b.form(plan+"/run", "count", "1", "database", "other", "note", "x")
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, before, audits(), "nothing is changed")

	for range 2 {
		status, to, body := b.form(plan+"/run", "count", "1", "database", name, "note", "topic is back")
		require.Equal(t, http.StatusSeeOther, status, body)
		require.Equal(t, "/runs/"+id, to)
		b.reaches(id, "done")
	}
	require.Equal(t, before+1, audits(), "asked twice, it is one run")
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE actor = 'ann@example.com' AND reason = 'topic is back' AND action = 'dlq.replay'
   AND detail ->> 'runId' = $1 AND detail ->> 'via' = 'ui' AND detail ->> 'auth' = 'test' AND detail ->> 'remote' = '127.0.0.1' AND detail ->> 'requestId' <> ''`, id))
	_, _, body = b.get("/runs/" + id)
	require.Contains(t, body, "<strong>1</strong> of 1 done")
	status, header, _ := b.get(plan)
	require.Equal(t, []any{http.StatusSeeOther, "/runs/" + id}, []any{status, header.Get("Location")})
}

// All that match are those of when the list was read, and their count has to be typed.
func TestAllMatchingAreThoseThatWereLookedAt(t *testing.T) {
	b := setup(t, operators)
	b.kill(12, "max_attempts")
	_, _, list := b.get("/dead-letters?fingerprint=f2&since=2h")
	require.Contains(t, list, `name="id"`)
	fields := []string{"action", "replay"}
	part := regexp.MustCompile(`(?s)name="all".*?</form>`).FindString(list)
	for _, f := range regexp.MustCompile(`name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(`name="all" `+part, -1) {
		if f[1] != "action" {
			fields = append(fields, f[1], html.UnescapeString(f[2]))
		}
	}
	b.kill(5, "max_attempts") // after the page was read

	_, plan, body := b.form("/plans", fields...)
	require.NotEmpty(t, plan, body)
	_, _, body = b.get(plan)
	require.Contains(t, body, "Replay 12 dead letters?")
	require.Contains(t, body, "Type the count, 12, to confirm")
	name := regexp.MustCompile(`name="database" value="([^"]*)"`).FindStringSubmatch(body)[1]
	status, _, _ := b.form(plan+"/run", "database", name, "note", "x")
	require.Equal(t, http.StatusConflict, status, "the count was not typed")
	status, to, body := b.form(plan+"/run", "count", "12", "database", name, "note", "x", "rate", "1000")
	require.Equal(t, http.StatusSeeOther, status, body)
	b.reaches(strings.TrimPrefix(to, "/runs/"), "done")
	require.EqualValues(t, 5, b.count(`SELECT count(*) FROM outbox_dlq WHERE fingerprint = 'f2' AND state = 'open'`))

	// A cause is a filter too.
	require.Eventually(t, func() bool {
		_, _, body := b.get("/causes")
		return strings.Contains(body, `name="fingerprint" value="f2"`)
	}, waitFor, tick)
	_, plan, body = b.form("/plans", "all", "1", "action", "discard", "fingerprint", "f2")
	require.NotEmpty(t, plan, body)
	_, _, body = b.get(plan)
	require.Contains(t, body, "Discard 5 dead letters?")
	status, to, _ = b.form(plan + "/abandon")
	require.Equal(t, []any{http.StatusSeeOther, plan}, []any{status, to})
	_, _, body = b.get(plan)
	require.Contains(t, body, "abandoned by ann@example.com")
}

func TestTheAPIChanges(t *testing.T) {
	b := setup(t, operators)
	api := readOpenAPI(t)
	status, plan, text := b.api(http.MethodPost, "/plans", `{"action": "restore", "filter": {"reason": ["max_attempts"], "until": "0s"}, "reason": "mistake"}`)
	require.Equal(t, http.StatusAccepted, status, text)
	require.EqualValues(t, 1, plan.Total)
	require.Equal(t, map[string]int64{"order_canceled": 1}, plan.Summary.Types)
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&value))
	require.Empty(t, api.check(schema{Ref: "#/components/schemas/PlanDetail"}, value, "plan"))

	confirm := func(n int64, name string) string {
		return fmt.Sprintf(`{"confirm": {"count": %d, "database": %q}}`, n, name)
	}
	for _, wrong := range []string{confirm(2, plan.Database.Name), confirm(1, "other"), confirm(1, ""), `{}`} {
		status, _, text = b.api(http.MethodPost, "/plans/"+plan.ID+"/run", wrong)
		require.Equal(t, http.StatusConflict, status, text)
		require.Contains(t, text, "nothing was changed")
	}
	require.Zero(t, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'dlq.restore'`))
	status, _, text = b.api(http.MethodPost, "/plans/"+plan.ID+"/run", confirm(1, plan.Database.Name))
	require.Equal(t, http.StatusAccepted, status, text)
	b.reaches(plan.ID, "done")
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'dlq.restore' AND reason = 'mistake'`))

	// What is over cannot be stopped, resumed or given up; what is not started can be given up once.
	for _, call := range []string{"POST /runs/%s/resume", "DELETE /plans/%s"} {
		method, path, _ := strings.Cut(fmt.Sprintf(call, plan.ID), " ")
		status, _, text = b.api(method, path, "")
		require.Equal(t, http.StatusConflict, status, "%s: %s", call, text)
	}
	status, _, _ = b.api(http.MethodPost, "/runs/"+plan.ID+"/stop", "")
	require.Equal(t, http.StatusAccepted, status, "it has ended, as was wanted")
	_, plan, _ = b.api(http.MethodPost, "/plans", `{"action": "republish", "ids": ["00000000-0000-7000-8000-0000000000e1"]}`)
	status, _, _ = b.api(http.MethodPost, "/runs/"+plan.ID+"/stop", "")
	require.Equal(t, http.StatusConflict, status)
	status, _, _ = b.api(http.MethodDelete, "/plans/"+plan.ID, "")
	require.Equal(t, http.StatusNoContent, status)
	status, _, _ = b.api(http.MethodDelete, "/plans/"+plan.ID, "")
	require.Equal(t, http.StatusConflict, status)

	// Ids of nothing are told.
	_, plan, _ = b.api(http.MethodPost, "/plans", `{"action": "replay", "ids": ["00000000-0000-7000-8000-0000000000ff"]}`)
	got := b.reaches(plan.ID, "abandoned")
	require.Equal(t, map[string]int64{"not_found": 1}, got.LeftOut)
	require.Contains(t, got.EndedWhy, "nothing to replay")
}

// What must die again is replayed only by somebody who says so.
func TestAHopelessReplayIsRefused(t *testing.T) {
	b := setup(t, operators)
	b.kill(2, "invalid_payload")
	_, plan, _ := b.api(http.MethodPost, "/plans", `{"action": "replay", "filter": {"fingerprint": "f2"}, "reason": "x"}`)
	_, _, body := b.get("/plans/" + plan.ID)
	require.Contains(t, body, "2 of 2 dead letters must die again as stored: 2 invalid_payload")
	confirm := fmt.Sprintf(`{"confirm": {"count": 2, "database": %q}`, plan.Database.Name)
	status, _, text := b.api(http.MethodPost, "/plans/"+plan.ID+"/run", confirm+`}`)
	require.Equal(t, http.StatusForbidden, status, text)
	status, _, text = b.api(http.MethodPost, "/plans/"+plan.ID+"/run", confirm+`, "force": true}`)
	require.Equal(t, http.StatusAccepted, status, text)
	b.reaches(plan.ID, "done")
}

// Without permission the addresses do not exist; a viewer is refused; neither sees a button.
func TestWhoMayChange(t *testing.T) {
	viewers := func(c *ui.Config) {
		revealing(c)
		c.Identify = func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "eve"}, nil }
	}
	for name, tc := range map[string]struct {
		change func(*ui.Config)
		want   []int
	}{
		"read-only": {nil, []int{http.StatusNotFound, http.StatusMethodNotAllowed}},
		"a viewer":  {viewers, []int{http.StatusForbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, tc.change)
			before := b.count(`SELECT count(*) FROM outbox_plans`)
			for _, call := range ui.ChangePaths() {
				method, path, _ := strings.Cut(strings.ReplaceAll(call, "{id}", b.planID()), " ")
				contentType, body := formType, "action=replay&id="+deadID
				if strings.HasPrefix(path, "/api/") {
					contentType, body = jsonType, `{"action": "replay", "ids": ["`+deadID+`"]}`
				}
				// A header that a proxy might set is believed by nobody.
				status, _, _ := b.send(method, path, contentType, body, "X-Forwarded-User", "ann@example.com", "X-Forwarded-Email", "ann@example.com", "X-Goog-Authenticated-User-Email", "ann@example.com", "Remote-User", "ann")
				require.Contains(t, tc.want, status, call)
			}
			require.Equal(t, before, b.count(`SELECT count(*) FROM outbox_plans`))
			for _, address := range b.addresses() {
				_, _, body := b.get(address)
				require.NotContains(t, body, `method="post"`, address)
			}
		})
	}
}

func TestBadRequestsChangeNothing(t *testing.T) {
	b := setup(t, operators)
	before := b.count(`SELECT count(*) FROM outbox_plans`)
	good := "action=replay&id=" + deadID
	for name, tc := range map[string]struct {
		path, contentType, body string
		headers                 []string
		want                    int
	}{
		"from another site":      {"/plans", formType, good, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"from a sibling site":    {"/plans", formType, good, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		"from another origin":    {"/plans", formType, good, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"from no origin":         {"/plans", formType, good, []string{"Origin", "null"}, http.StatusForbidden},
		"under another name":     {"/plans", formType, good, []string{"Host", "evil.example"}, http.StatusMisdirectedRequest},
		"the API, cross-site":    {"/api/v1/plans", jsonType, `{}`, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"JSON as plain text":     {"/api/v1/plans", "text/plain", `{"action": "replay"}`, nil, http.StatusUnsupportedMediaType},
		"a form to the API":      {"/api/v1/plans", formType, good, nil, http.StatusUnsupportedMediaType},
		"a form with files":      {"/plans", "multipart/form-data; boundary=x", good, nil, http.StatusUnsupportedMediaType},
		"not JSON":               {"/api/v1/plans", jsonType, `{"action": `, nil, http.StatusBadRequest},
		"two documents":          {"/api/v1/plans", jsonType, `{"action": "replay", "ids": ["` + deadID + `"]} {}`, nil, http.StatusBadRequest},
		"nothing":                {"/api/v1/plans", jsonType, ``, nil, http.StatusBadRequest},
		"an unknown key":         {"/api/v1/plans", jsonType, `{"action": "replay", "ids": ["` + deadID + `"], "actor": "bob"}`, nil, http.StatusBadRequest},
		"an unknown filter":      {"/api/v1/plans", jsonType, `{"action": "replay", "filter": {"typ": "order_canceled"}}`, nil, http.StatusBadRequest},
		"a filter of numbers":    {"/api/v1/plans", jsonType, `{"action": "replay", "filter": {"type": 1}}`, nil, http.StatusBadRequest},
		"a state of its own":     {"/api/v1/plans", jsonType, `{"action": "replay", "filter": {"state": "discarded"}}`, nil, http.StatusBadRequest},
		"no rows":                {"/api/v1/plans", jsonType, `{"action": "replay"}`, nil, http.StatusBadRequest},
		"every row":              {"/api/v1/plans", jsonType, `{"action": "replay", "filter": {"type": []}}`, nil, http.StatusBadRequest},
		"ids and a filter":       {"/api/v1/plans", jsonType, `{"action": "replay", "ids": ["` + deadID + `"], "filter": {"type": "order_canceled"}}`, nil, http.StatusBadRequest},
		"no id":                  {"/api/v1/plans", jsonType, `{"action": "replay", "ids": ["'; DROP TABLE outbox_dlq; --"]}`, nil, http.StatusBadRequest},
		"another action":         {"/api/v1/plans", jsonType, `{"action": "delete", "ids": ["` + deadID + `"]}`, nil, http.StatusBadRequest},
		"no row is ticked":       {"/plans", formType, "action=replay", nil, http.StatusBadRequest},
		"an unknown field":       {"/plans", formType, good + "&actor=bob", nil, http.StatusBadRequest},
		"fields in the address":  {"/plans?" + good, formType, "", nil, http.StatusBadRequest},
		"a plan of nobody":       {"/plans/00000000-0000-7000-8000-0000000000ff/run", formType, "count=1", nil, http.StatusNotFound},
		"a plan without an id":   {"/plans/x/run", formType, "count=1", nil, http.StatusBadRequest},
		"a count in words":       {"/plans/" + b.planID() + "/run", formType, "count=one", nil, http.StatusBadRequest},
		"a negative rate":        {"/api/v1/plans/" + b.planID() + "/run", jsonType, `{"rate": -1}`, nil, http.StatusBadRequest},
		"a share of three":       {"/api/v1/plans/" + b.planID() + "/run", jsonType, `{"abortIfDead": 3}`, nil, http.StatusBadRequest},
		"a form that is too big": {"/plans", formType, good + "&note=" + strings.Repeat("x", 1<<20), nil, http.StatusRequestEntityTooLarge},
		"JSON that is too big":   {"/api/v1/plans", jsonType, `{"reason": "` + strings.Repeat("x", 1<<20) + `"}`, nil, http.StatusRequestEntityTooLarge},
	} {
		status, _, body := b.send(http.MethodPost, tc.path, tc.contentType, tc.body, tc.headers...)
		require.Equal(t, tc.want, status, "%s: %s", name, body)
	}
	require.Equal(t, before, b.count(`SELECT count(*) FROM outbox_plans`))
	status, _, body := b.send(http.MethodPost, "/plans", formType, good, "Origin", b.url)
	require.Equal(t, http.StatusSeeOther, status, body)
}

// second serves another page over the same database.
func (b *bundle) second(name string) (*bundle, *ui.Handler) {
	b.t.Helper()
	cfg := ui.Config{ReadPool: b.db.Pool, Refresh: 10 * time.Millisecond, Log: func(path string, err error) { b.t.Logf("%s: %v", path, err) }}
	operators(&cfg)
	cfg.Identify = func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: name, Role: ui.Operator}, nil }
	handler, err := ui.New(cfg)
	require.NoError(b.t, err)
	server := httptest.NewServer(handler)
	b.t.Cleanup(server.Close)
	return &bundle{t: b.t, db: b.db, url: server.URL}, handler
}

// The process ends in the middle of a run, and the other copy of the page resumes it: each row is changed once.
func TestARunIsInterruptedAndResumedByAnotherPage(t *testing.T) {
	b := setup(t, operators)
	b.kill(manyDead, "max_attempts")
	other, handler := b.second("bob")
	_, plan, text := other.api(http.MethodPost, "/plans", `{"action": "replay", "filter": {"fingerprint": "f2"}, "reason": "broker is back"}`)
	require.NotEmpty(t, plan.ID, text)
	plan = other.reaches(plan.ID, "ready")
	require.EqualValues(t, manyDead, plan.Total)
	// Slow enough to be at it for minutes; ten rows at a time.
	status, _, text := other.api(http.MethodPost, "/plans/"+plan.ID+"/run", fmt.Sprintf(`{"confirm": {"count": %d, "database": %q}, "rate": 40}`, manyDead, plan.Database.Name))
	require.Equal(t, http.StatusAccepted, status, text)
	require.Eventually(t, func() bool { return b.count(`SELECT done FROM outbox_plans WHERE id = $1::text::uuid`, plan.ID) > 0 }, wantState, tick)
	_, _, body := b.get("/runs/" + plan.ID)
	require.Contains(t, body, "Stop after the rows it is at")
	status, _, text = b.api(http.MethodPost, "/runs/"+plan.ID+"/resume", "")
	require.Equal(t, http.StatusAccepted, status, "it is running: %s", text)

	require.NoError(t, handler.Shutdown(context.WithoutCancel(t.Context())))
	plan = b.reaches(plan.ID, "interrupted")
	require.Less(t, plan.Done, plan.Total)
	_, _, body = b.get("/runs/" + plan.ID)
	require.Contains(t, body, "Resume: ")
	status, to, body := b.form("/runs/"+plan.ID+"/resume", "rate", "")
	require.Equal(t, http.StatusSeeOther, status, body)
	require.Equal(t, "/runs/"+plan.ID, to)
	plan = b.reaches(plan.ID, "done")
	require.Equal(t, map[string]int64{"replayed": manyDead}, plan.Counts)
	require.EqualValues(t, manyDead, b.count(`SELECT sum(affected)::bigint FROM outbox_audit WHERE detail ->> 'runId' = $1`, plan.ID), "each row once")
	require.Positive(t, b.count(`SELECT count(*) FROM outbox_audit WHERE detail ->> 'runId' = $1 AND actor = 'ann@example.com' AND detail ->> 'author' = 'bob'`, plan.ID))
}

func TestARunIsStopped(t *testing.T) {
	b := setup(t, operators)
	b.kill(manyDead, "max_attempts")
	_, plan, _ := b.api(http.MethodPost, "/plans", `{"action": "discard", "filter": {"fingerprint": "f2"}, "reason": "tests"}`)
	plan = b.reaches(plan.ID, "ready")
	_, _, _ = b.api(http.MethodPost, "/plans/"+plan.ID+"/run", fmt.Sprintf(`{"confirm": {"count": %d, "database": %q}, "rate": 40}`, manyDead, plan.Database.Name))
	status, _, body := b.form("/runs/" + plan.ID + "/stop")
	require.Equal(t, http.StatusSeeOther, status, body)
	plan = b.reaches(plan.ID, "stopped")
	require.Equal(t, "stopped by ann@example.com", plan.EndedWhy)
}

// Two operators on two pages and the command line, all on the same rows: each row is changed once and everybody is told.
func TestOverlappingChangesChangeEachRowOnce(t *testing.T) {
	b := setup(t, operators)
	b.kill(manyDead, "max_attempts")
	other, handler := b.second("bob")
	t.Cleanup(func() { require.NoError(t, handler.Shutdown(context.WithoutCancel(t.Context()))) })
	var plans []dlq.Frozen
	for _, page := range []*bundle{b, other} {
		_, plan, text := page.api(http.MethodPost, "/plans", `{"action": "replay", "filter": {"fingerprint": "f2"}, "reason": "x"}`)
		require.NotEmpty(t, plan.ID, text)
		plans = append(plans, page.reaches(plan.ID, "ready"))
	}
	outbox := &operate.Outbox{DB: b.db.Pool, Registry: registry.New()}
	set, err := outbox.ChooseChange(t.Context(), operate.ChangeParams{Action: dlq.Replay, DeadLetters: &dlq.Filter{State: dlq.StateOpen, Fingerprints: []string{"f2"}}, Actor: "cli"})
	require.NoError(t, err)

	var all sync.WaitGroup
	for i, page := range []*bundle{b, other} {
		all.Go(func() {
			page.api(http.MethodPost, "/plans/"+plans[i].ID+"/run", fmt.Sprintf(`{"confirm": {"count": %d, "database": %q}}`, manyDead, plans[i].Database.Name))
		})
	}
	var byHand dlq.RunResult
	var byHandErr error
	all.Go(func() {
		byHand, byHandErr = set.Apply(t.Context(), operate.ApplyParams{OnOutcomes: func([]dlq.Outcome) error { return nil }})
	})
	all.Wait()
	require.NoError(t, byHandErr)
	changed, told := byHand.Counts[dlq.Replayed], byHand.Total()
	for _, plan := range plans {
		got := b.reaches(plan.ID, "done")
		changed += got.Counts[dlq.Replayed]
		for _, n := range got.Counts {
			told += n
		}
	}
	require.EqualValues(t, manyDead, changed, "each row once")
	require.EqualValues(t, 2*manyDead, told-changed, "who was late is told so")
}

func TestChangesAreLimited(t *testing.T) {
	b := setup(t, func(c *ui.Config) { operators(c); c.MaxPlanRows = 1 })
	b.kill(1001, "max_attempts")
	_, plan, _ := b.api(http.MethodPost, "/plans", `{"action": "replay", "filter": {"fingerprint": "f2"}}`)
	got := b.reaches(plan.ID, "abandoned")
	require.Contains(t, got.EndedWhy, "more than 1 row")

	// Eleven plans of the same row: the tenth is the last that may be run within a minute.
	var plans []dlq.Frozen
	for range 11 {
		_, plan, text := b.api(http.MethodPost, "/plans", `{"action": "replay", "ids": ["`+deadID+`"], "reason": "x"}`)
		require.Equal(t, "ready", plan.State, text)
		plans = append(plans, plan)
	}
	last, header := 0, http.Header{}
	for i, plan := range plans {
		var text string
		last, header, text = b.send(http.MethodPost, "/api/v1/plans/"+plan.ID+"/run", jsonType, fmt.Sprintf(`{"confirm": {"count": 1, "database": %q}}`, plan.Database.Name))
		require.True(t, last == http.StatusAccepted || i == 10, text)
	}
	require.Equal(t, http.StatusTooManyRequests, last)
	require.NotEmpty(t, header.Get("Retry-After"))
}

func TestHostileTextInPlans(t *testing.T) {
	b := setup(t, func(c *ui.Config) {
		operators(c)
		c.Identify = func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: hostile, Role: ui.Operator}, nil }
	})
	_, err := b.db.Pool.Exec(t.Context(), `INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, topic, fingerprint)
SELECT $2::text::uuid, 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'max_attempts', $1, 1, $1, $1`, hostile, eventID)
	require.NoError(t, err)
	doc, err := json.Marshal(map[string]any{"action": "discard", "reason": hostile, "filter": map[string]any{"fingerprint": hostile}})
	require.NoError(t, err)
	_, plan, text := b.api(http.MethodPost, "/plans", string(doc))
	require.NotEmpty(t, plan.ID, text)
	plan = b.reaches(plan.ID, "ready")
	addresses := []string{"/plans/" + plan.ID, "/runs", "/dead-letters", "/causes"}
	look := func() {
		for _, address := range addresses {
			_, _, body := b.get(address)
			require.Contains(t, body, "window.pwned", address)
			body = regexp.MustCompile(`value="[^"]*"|(?s)<textarea.*?</textarea>`).ReplaceAllString(body, "")
			for _, bad := range []string{"<script>w", "<img", "\u202e", "\x1b", "\u200b"} {
				require.NotContains(t, body, bad, address)
			}
		}
	}
	require.Eventually(t, func() bool { _, _, body := b.get("/causes"); return strings.Contains(body, "window.pwned") }, waitFor, tick)
	look()
	status, _, text := b.api(http.MethodPost, "/plans/"+plan.ID+"/run", fmt.Sprintf(`{"confirm": {"count": 1, "database": %q}}`, plan.Database.Name))
	require.Equal(t, http.StatusAccepted, status, text)
	b.reaches(plan.ID, "done")
	addresses = []string{"/runs/" + plan.ID, "/runs", "/audit"}
	look()
}

// The consumers' marks stand beside the plan, or that Redis does not answer.
func TestAPlanShowsWhatConsumersRemember(t *testing.T) {
	b := setup(t, func(c *ui.Config) { operators(c); c.Redis = outboxtest.Redis(t).Client })
	_, plan, _ := b.form("/plans", "action", "replay", "id", deadID)
	_, _, body := b.get(plan)
	require.NotContains(t, body, "What the consumers remember is not known")
}

// Every form leads below the base path.
func TestChangesBelowABasePath(t *testing.T) {
	b := setup(t, func(c *ui.Config) { operators(c); c.BasePath = "/ops/outbox" })
	status, header, _ := b.send(http.MethodPost, "/plans", formType, "action=replay&id="+deadID)
	require.Equal(t, http.StatusSeeOther, status)
	require.Regexp(t, `^/ops/outbox/plans/`, header.Get("Location"))
	for _, address := range append(b.addresses(), strings.TrimPrefix(header.Get("Location"), b.base)) {
		_, _, body := b.get(address)
		for _, link := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			require.True(t, strings.HasPrefix(link[1], "/ops/outbox/") || link[1] == "#main", "%s: %s", address, link[1])
		}
	}
	status, header, _ = b.send(http.MethodPost, "/api/v1/plans", jsonType, `{"action": "replay", "ids": ["`+deadID+`"]}`)
	require.Equal(t, http.StatusAccepted, status)
	require.Regexp(t, `^/ops/outbox/api/v1/plans/`, header.Get("Location"))
}

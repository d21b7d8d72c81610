package ui_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	deadID    = "00000000-0000-7000-8000-0000000000d3"
	eventID   = "00000000-0000-7000-8000-0000000000e3"
	formType  = "application/x-www-form-urlencoded"
	jsonType  = "application/json"
	manyDead  = 2100
	wantState = time.Minute
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
func (b *bundle) api(method, path, body string) (status int, plan dlq.Plan, text string) {
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
func (b *bundle) reaches(id, state string) (plan dlq.Plan) {
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
	status, plan, _ := b.form("/plans", "action", "replay", "ids", deadID)
	require.Equal(t, http.StatusSeeOther, status)
	require.Regexp(t, `^/plans/[0-9a-f-]{36}$`, plan)
	id := strings.TrimPrefix(plan, "/plans/")
	b.reaches(id, dlq.PlanReady)
	status, _, body = b.get(plan)
	require.Equal(t, http.StatusOK, status)
	for _, want := range []string{"Replay 1 dead letter?", "order_canceled", eventID, "max_attempts", "No publisher is alive", "outboxctl plan run " + id, "redis.url is not set"} {
		require.Contains(t, body, want)
	}
	name := regexp.MustCompile(`name="confirm.database" value="([^"]*)"`).FindStringSubmatch(body)[1]

	for want, fields := range map[int][]string{
		http.StatusConflict:   {"confirm.count", "2", "confirm.database", name, "note", "x"},
		http.StatusBadRequest: {"confirm.count", "1", "confirm.database", name, "note", " "},
	} {
		status, _, body := b.form(plan+"/run", fields...)
		require.Equal(t, want, status, body)
		require.Contains(t, body, "Nothing was changed")
		require.Contains(t, body, `href="`+plan+`"`, "a way back")
	}
	status, _, _ = b.form(plan+"/run", "confirm.count", "1", "confirm.database", "other", "note", "x")
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, before, audits(), "nothing is changed")

	for range 2 {
		status, to, body := b.form(plan+"/run", "confirm.count", "1", "confirm.database", name, "note", "topic is back")
		require.Equal(t, http.StatusSeeOther, status, body)
		require.Equal(t, "/plans/"+id, to)
		b.reaches(id, "done")
	}
	require.Equal(t, before+1, audits(), "asked twice, it is one run")
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE actor = 'ann@example.com' AND note = 'topic is back' AND action = 'dlq.replay'
   AND detail ->> 'runId' = $1 AND detail ->> 'via' = 'ui' AND detail ->> 'auth' = 'test' AND detail ->> 'remote' = '127.0.0.1' AND detail ->> 'requestId' <> ''`, id))
	_, _, body = b.get("/plans/" + id)
	require.Contains(t, body, "<strong>1</strong> of 1 done")
}

// All that match are those of when the list was read, and their count has to be typed.
func TestAllMatchingAreThoseThatWereLookedAt(t *testing.T) {
	b := setup(t, operators)
	b.kill(12, "max_attempts")
	_, _, list := b.get("/dead-letters?fingerprint=f2&since=2h")
	require.Contains(t, list, `name="ids"`)
	fields := []string{"action", "replay"}
	for _, f := range regexp.MustCompile(`name="(filter[^"]*)" value="([^"]*)"`).FindAllStringSubmatch(list, -1) {
		fields = append(fields, f[1], html.UnescapeString(f[2]))
	}
	b.kill(5, "max_attempts") // after the page was read

	_, plan, body := b.form("/plans", fields...)
	require.NotEmpty(t, plan, body)
	b.reaches(strings.TrimPrefix(plan, "/plans/"), dlq.PlanReady)
	_, _, body = b.get(plan)
	require.Contains(t, body, "Replay 12 dead letters?")
	require.Contains(t, body, "Type the count, 12, to confirm")
	require.Contains(t, body, "<dt>Filter</dt><dd><bdi>fingerprints f2 · since 20", "in words")
	name := regexp.MustCompile(`name="confirm.database" value="([^"]*)"`).FindStringSubmatch(body)[1]
	status, _, _ := b.form(plan+"/run", "confirm.database", name, "note", "x")
	require.Equal(t, http.StatusConflict, status, "the count was not typed")
	status, to, body := b.form(plan+"/run", "confirm.count", "12", "confirm.database", name, "note", "x", "rate", "60000/m")
	require.Equal(t, http.StatusSeeOther, status, body)
	b.reaches(strings.TrimPrefix(to, "/plans/"), "done")
	require.EqualValues(t, 5, b.count(`SELECT count(*) FROM outbox_dlq WHERE fingerprint = 'f2' AND state = 'open'`))

	// A cause is a filter too.
	require.Eventually(t, func() bool {
		_, _, body := b.get("/causes")
		return strings.Contains(body, `name="filter.fingerprint" value="f2"`)
	}, waitFor, tick)
	_, plan, body = b.form("/plans", "action", "discard", "filter.fingerprint", "f2")
	require.NotEmpty(t, plan, body)
	b.reaches(strings.TrimPrefix(plan, "/plans/"), dlq.PlanReady)
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
	status, plan, text := b.api(http.MethodPost, "/plans", `{"action": "restore", "filter": {"reason": ["max_attempts"], "until": "0s"}, "note": "mistake"}`)
	require.Equal(t, http.StatusAccepted, status, text)
	plan = b.reaches(plan.ID, "ready")
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
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'dlq.restore' AND note = 'mistake'`))

	// What is over cannot be stopped, resumed or given up; what is not started can be given up once.
	for _, call := range []string{"POST /plans/%s/run", "DELETE /plans/%s"} {
		method, path, _ := strings.Cut(fmt.Sprintf(call, plan.ID), " ")
		status, _, text = b.api(method, path, "")
		require.Equal(t, http.StatusConflict, status, "%s: %s", call, text)
	}
	status, _, _ = b.api(http.MethodPost, "/plans/"+plan.ID+"/stop", "")
	require.Equal(t, http.StatusAccepted, status, "it has ended, as was wanted")
	_, plan, _ = b.api(http.MethodPost, "/plans", `{"action": "republish", "ids": ["00000000-0000-7000-8000-0000000000e1"]}`)
	plan = b.reaches(plan.ID, "ready")
	status, _, _ = b.api(http.MethodPost, "/plans/"+plan.ID+"/stop", "")
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

// What would fail again is replayed only on request.
func TestAHopelessReplayIsRefused(t *testing.T) {
	b := setup(t, operators)
	b.kill(2, "invalid_payload")
	_, plan, _ := b.api(http.MethodPost, "/plans", `{"action": "replay", "filter": {"fingerprint": "f2"}, "note": "x"}`)
	plan = b.reaches(plan.ID, "ready")
	_, _, body := b.get("/plans/" + plan.ID)
	require.Contains(t, body, "2 of 2 dead letters would fail again unchanged: 2 invalid_payload")
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
		"read-only": {nil, []int{http.StatusNotFound}},
		"a viewer":  {viewers, []int{http.StatusForbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, tc.change)
			before := b.count(`SELECT count(*) FROM outbox_plans`)
			for _, call := range ui.ChangePaths() {
				method, path, _ := strings.Cut(strings.ReplaceAll(call, "{id}", b.planID()), " ")
				contentType, body := formType, "action=replay&ids="+deadID
				if strings.HasPrefix(path, "/api/") {
					contentType, body = jsonType, `{"action": "replay", "ids": ["`+deadID+`"]}`
				}
				// A header that a proxy might set is not believed.
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
	good := "action=replay&ids=" + deadID
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
		"no ids and a filter":    {"/api/v1/plans", jsonType, `{"action": "replay", "ids": [], "filter": {"type": "order_canceled"}}`, nil, http.StatusBadRequest},
		"an empty id":            {"/plans", formType, good + "&ids=", nil, http.StatusBadRequest},
		"ticked and all":         {"/plans", formType, good + "&filter.type=order_canceled", nil, http.StatusBadRequest},
		"no id":                  {"/api/v1/plans", jsonType, `{"action": "replay", "ids": ["'; DROP TABLE outbox_dlq; --"]}`, nil, http.StatusBadRequest},
		"another action":         {"/api/v1/plans", jsonType, `{"action": "delete", "ids": ["` + deadID + `"]}`, nil, http.StatusBadRequest},
		"no row is ticked":       {"/plans", formType, "action=replay", nil, http.StatusBadRequest},
		"an unknown field":       {"/plans", formType, good + "&actor=bob", nil, http.StatusBadRequest},
		"fields in the address":  {"/plans?" + good, formType, "", nil, http.StatusBadRequest},
		"an unknown plan":        {"/plans/00000000-0000-7000-8000-0000000000ff/run", formType, "confirm.count=1", nil, http.StatusNotFound},
		"a plan without an id":   {"/plans/x/run", formType, "confirm.count=1", nil, http.StatusBadRequest},
		"a count in words":       {"/plans/" + b.planID() + "/run", formType, "confirm.count=one", nil, http.StatusBadRequest},
		"a count in a list":      {"/plans/" + b.planID() + "/run", formType, "confirm.count=1&confirm.count=2", nil, http.StatusBadRequest},
		"force, perhaps":         {"/api/v1/plans/" + b.planID() + "/run", jsonType, `{"force": "no"}`, nil, http.StatusBadRequest},
		"a rate per day":         {"/plans/" + b.planID() + "/run", formType, "rate=30/d", nil, http.StatusBadRequest},
		"a negative rate":        {"/api/v1/plans/" + b.planID() + "/run", jsonType, `{"rate": -1}`, nil, http.StatusBadRequest},
		"a share of three":       {"/api/v1/plans/" + b.planID() + "/run", jsonType, `{"abortIfDead": 3}`, nil, http.StatusBadRequest},
		"a form that is too big": {"/plans", formType, good + "&note=" + strings.Repeat("x", 1<<20), nil, http.StatusRequestEntityTooLarge},
		"JSON that is too big":   {"/api/v1/plans", jsonType, `{"note": "` + strings.Repeat("x", 1<<20) + `"}`, nil, http.StatusRequestEntityTooLarge},
	} {
		status, _, body := b.send(http.MethodPost, tc.path, tc.contentType, tc.body, tc.headers...)
		require.Equal(t, tc.want, status, "%s: %s", name, body)
	}
	require.Equal(t, before, b.count(`SELECT count(*) FROM outbox_plans`))
	status, _, body := b.send(http.MethodPost, "/plans", formType, good, "Origin", b.url)
	require.Equal(t, http.StatusSeeOther, status, body)
}

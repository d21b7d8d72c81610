package ui_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	deadID    = "00000000-0000-7000-8000-0000000000d3"
	eventID   = "00000000-0000-7000-8000-0000000000e3"
	formType  = "application/x-www-form-urlencoded"
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

// plan makes a plan and waits until it is in a state.
func (b *bundle) plan(state string, fields ...string) dlq.Plan {
	b.t.Helper()
	status, to, body := b.form("/plans", fields...)
	require.Equal(b.t, http.StatusSeeOther, status, body)
	return b.reaches(strings.TrimPrefix(to, "/plans/"), state)
}

// run confirms a plan.
func (b *bundle) run(p dlq.Plan, fields ...string) (status int, to, body string) {
	b.t.Helper()
	return b.form("/plans/"+p.ID+"/run", append(fields, "confirm.count", strconv.FormatInt(p.Total, 10), "confirm.database", p.Database.Name)...)
}

func (b *bundle) count(sql string, args ...any) (n int64) {
	b.t.Helper()
	require.NoError(b.t, b.db.Pool.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// reaches waits until a plan is in a state.
func (b *bundle) reaches(id, state string) (plan dlq.Plan) {
	b.t.Helper()
	box := dlq.New(b.db.Pool, registry.New())
	require.Eventually(b.t, func() bool {
		found, err := box.Plan(b.t.Context(), id)
		plan = found.Plan
		return err == nil && plan.State == state
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

func TestAPlanIsConfirmedAndEnds(t *testing.T) {
	b := setup(t, operators)
	plan := b.plan("ready", "action", "restore", "filter.reason", "max_attempts", "filter.until", "0s", "note", "mistake")
	require.EqualValues(t, 1, plan.Total)
	require.Equal(t, map[string]int64{"order_canceled": 1}, plan.Summary.Types)
	of := "/plans/" + plan.ID
	for _, wrong := range [][]string{
		{"confirm.count", "2", "confirm.database", plan.Database.Name}, {"confirm.count", "1", "confirm.database", "other"}, {"confirm.count", "1"}, nil,
	} {
		status, _, text := b.form(of+"/run", wrong...)
		require.Equal(t, http.StatusConflict, status, text)
		require.Contains(t, text, "Nothing was changed")
	}
	require.Zero(t, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'dlq.restore'`))
	status, _, text := b.run(plan)
	require.Equal(t, http.StatusSeeOther, status, text)
	b.reaches(plan.ID, "done")
	require.EqualValues(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'dlq.restore' AND note = 'mistake'`))

	// What is over cannot be stopped or given up; what is not started can be given up once.
	status, _, text = b.form(of + "/abandon")
	require.Equal(t, http.StatusConflict, status, text)
	status, _, _ = b.form(of + "/stop")
	require.Equal(t, http.StatusSeeOther, status, "it has ended, as was wanted")
	plan = b.plan("ready", "action", "republish", "ids", "00000000-0000-7000-8000-0000000000e1")
	of = "/plans/" + plan.ID
	status, _, _ = b.form(of + "/stop")
	require.Equal(t, http.StatusConflict, status)
	status, _, _ = b.form(of + "/abandon")
	require.Equal(t, http.StatusSeeOther, status)
	status, _, _ = b.form(of + "/abandon")
	require.Equal(t, http.StatusConflict, status)

	// Ids of nothing are told.
	got := b.plan("abandoned", "action", "replay", "ids", "00000000-0000-7000-8000-0000000000ff")
	require.Equal(t, map[string]int64{"not_found": 1}, got.LeftOut)
	require.Contains(t, got.EndedWhy, "nothing to replay")
}

// A plan's page names what it is done to.
func TestAPlanNamesItsRowsAndItsCommand(t *testing.T) {
	b := setup(t, operators)
	for want, fields := range map[string][]string{
		"Republish 1 published event": {"action", "republish", "ids", "00000000-0000-7000-8000-0000000000e1"},
		"Replay 1 dead letter":        {"action", "replay", "ids", deadID},
	} {
		plan := b.plan("ready", fields...)
		_, _, page := b.get("/plans/" + plan.ID)
		require.Contains(t, page, want)
		require.Contains(t, page, "outboxctl plan run "+plan.ID)
	}
}

// What would fail again is replayed only on request.
func TestAHopelessReplayIsRefused(t *testing.T) {
	b := setup(t, operators)
	b.kill(2, "invalid_payload")
	plan := b.plan("ready", "action", "replay", "filter.fingerprint", "f2", "note", "x")
	_, _, body := b.get("/plans/" + plan.ID)
	require.Contains(t, body, "2 of 2 dead letters would fail again unchanged: 2 invalid_payload")
	status, _, text := b.run(plan)
	require.Equal(t, http.StatusForbidden, status, text)
	status, _, text = b.run(plan, "force", "1")
	require.Equal(t, http.StatusSeeOther, status, text)
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
				path := strings.ReplaceAll(call, "{id}", b.planID())
				// A header that a proxy might set is not believed.
				status, _, _ := b.send(http.MethodPost, path, formType, "action=replay&ids="+deadID, "X-Forwarded-User", "ann@example.com", "X-Forwarded-Email", "ann@example.com", "X-Goog-Authenticated-User-Email", "ann@example.com", "Remote-User", "ann")
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
		"JSON":                   {"/plans", "application/json", `{"action": "replay", "ids": ["` + deadID + `"]}`, nil, http.StatusUnsupportedMediaType},
		"a form with files":      {"/plans", "multipart/form-data; boundary=x", good, nil, http.StatusUnsupportedMediaType},
		"half an escape":         {"/plans", formType, good + "&note=%zz", nil, http.StatusBadRequest},
		"nothing":                {"/plans", formType, "", nil, http.StatusBadRequest},
		"an unknown filter":      {"/plans", formType, "action=replay&filter.typ=order_canceled", nil, http.StatusBadRequest},
		"a state of its own":     {"/plans", formType, "action=replay&filter.state=discarded", nil, http.StatusBadRequest},
		"every row":              {"/plans", formType, "action=replay&filter.type=", nil, http.StatusBadRequest},
		"an empty id":            {"/plans", formType, good + "&ids=", nil, http.StatusBadRequest},
		"ticked and all":         {"/plans", formType, good + "&filter.type=order_canceled", nil, http.StatusBadRequest},
		"no id":                  {"/plans", formType, "action=replay&ids=%27%3B+DROP+TABLE+outbox_dlq", nil, http.StatusBadRequest},
		"another action":         {"/plans", formType, "action=delete&ids=" + deadID, nil, http.StatusBadRequest},
		"no row is ticked":       {"/plans", formType, "action=replay", nil, http.StatusBadRequest},
		"an unknown field":       {"/plans", formType, good + "&actor=bob", nil, http.StatusBadRequest},
		"fields in the address":  {"/plans?" + good, formType, "", nil, http.StatusBadRequest},
		"an unknown plan":        {"/plans/00000000-0000-7000-8000-0000000000ff/run", formType, "confirm.count=1", nil, http.StatusNotFound},
		"a plan without an id":   {"/plans/x/run", formType, "confirm.count=1", nil, http.StatusBadRequest},
		"a count in words":       {"/plans/" + b.planID() + "/run", formType, "confirm.count=one", nil, http.StatusBadRequest},
		"a count in a list":      {"/plans/" + b.planID() + "/run", formType, "confirm.count=1&confirm.count=2", nil, http.StatusBadRequest},
		"force, perhaps":         {"/plans/" + b.planID() + "/run", formType, "force=no", nil, http.StatusBadRequest},
		"a rate per day":         {"/plans/" + b.planID() + "/run", formType, "rate=30/d", nil, http.StatusBadRequest},
		"a negative rate":        {"/plans/" + b.planID() + "/run", formType, "rate=-1", nil, http.StatusBadRequest},
		"a share of three":       {"/plans/" + b.planID() + "/run", formType, "abortIfDead=3", nil, http.StatusBadRequest},
		"two notes":              {"/plans/" + b.planID() + "/run", formType, "note=x&note=y", nil, http.StatusBadRequest},
		"a form that is too big": {"/plans", formType, good + "&note=" + strings.Repeat("x", 1<<20), nil, http.StatusRequestEntityTooLarge},
	} {
		status, _, body := b.send(http.MethodPost, tc.path, tc.contentType, tc.body, tc.headers...)
		require.Equal(t, tc.want, status, "%s: %s", name, body)
	}
	require.Equal(t, before, b.count(`SELECT count(*) FROM outbox_plans`))
	status, _, body := b.send(http.MethodPost, "/plans", formType, good, "Origin", b.url)
	require.Equal(t, http.StatusSeeOther, status, body)
}

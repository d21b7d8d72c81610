package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

// withChanges lets ann change things, as an operator.
func withChanges(c *ui.Config) {
	c.Pool, c.AllowChanges = c.ReadPool, true
	c.Identify = func(*http.Request) (ui.Identity, error) {
		return ui.Identity{Name: "ann@example.com", Role: ui.Operator, Auth: "test"}, nil
	}
}

// number is one figure of the database.
func (s *site) number(sql string, args ...any) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.db.Pool.QueryRow(s.t.Context(), sql, args...).Scan(&n))
	return n
}

const (
	lettersIn  = `SELECT count(*) FROM outbox_dlq WHERE error_reason = $1::text::outbox_dlq_reason AND state = $2`
	confirming = `form.confirm button.primary`
	// running is on the page of a run that was started, and on no other: where the browser is when a confirmation has arrived.
	running = `dd a[href*="/audit?run="]`
)

// One dead letter is replayed, discarded and restored, each time confirmed on the server, and the audit says who.
func TestChangeOneWithAndWithoutJavaScript(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]bool{"with": false, "without, below a path": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := withChanges
			if off {
				change = below(withChanges)
			}
			s := newSite(t, change)
			b := newTab(t, s.url)
			_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
			require.NoError(t, err)
			for _, step := range []struct{ verb, state string }{{"discard", "discarded"}, {"restore", "open"}, {"replay", "replayed"}} {
				b.open("/dead-letters/" + letterID)
				b.follow(`form.act button[value="`+step.verb+`"]`, confirming)
				require.NotEqual(t, 1, s.number(`SELECT count(*) FROM outbox_dlq WHERE id = $1::text::uuid AND state = $2`, letterID, step.state), "nothing is changed before it is confirmed")
				b.do(chromedp.SetValue(chromedp.CSS(`textarea[name="note"]`), "a "+step.verb+" by hand"), chromedp.Click(chromedp.CSS(confirming)), chromedp.WaitVisible(chromedp.CSS(running)))
				require.Eventually(t, func() bool {
					return s.number(`SELECT count(*) FROM outbox_dlq WHERE id = $1::text::uuid AND state = $2`, letterID, step.state) == 1
				}, patience, tick)
			}
			b.open("/audit")
			b.hasText("a discard by hand")
			b.hasText("a replay by hand")
			b.hasText("ann@example.com")
		})
	}
}

// Three are ticked, and one of them is handled by another operator meanwhile: it is left out, and the page says so.
func TestTickedRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, below(withChanges))
	b := newTab(t, s.url)
	b.open("/dead-letters?reason=message_too_large")
	b.press("jxjxjx")
	b.seeText("3 selected")
	s.exec(`UPDATE outbox_dlq SET state = 'discarded', state_changed_at = now() WHERE id = $1::text::uuid`, js[string](b, `document.querySelector("input[name=ids]:checked").value`))
	b.follow(`#pick button[value="discard"]`, confirming)
	b.seeText("Left out")
	b.do(chromedp.SetValue(chromedp.CSS(`textarea[name="note"]`), "too large for ever"), chromedp.Click(chromedp.CSS(confirming)), chromedp.WaitVisible(chromedp.CSS(running)))
	require.Eventually(t, func() bool { return s.number(lettersIn, "message_too_large", "discarded") == 3 }, patience, tick)
}

// All matching: what died after the page was read is not in the set; a wrong count changes nothing.
func TestAllMatchingAsOfThePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, withChanges)
	b := newTab(t, s.url)
	b.expect("answered 409", "status of 409", "answered 400", "status of 400")
	b.open("/dead-letters?reason=invalid_payload")
	s.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'invalid_payload', 'a later death', 1`)
	b.follow(`.actions form:not(#pick) button[value="discard"]`, confirming)
	b.seeText("Discard 23 dead letters?")
	note := chromedp.SetValue(chromedp.CSS(`textarea[name="note"]`), "of a release that is gone")
	plan := js[string](b, "location.pathname")
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name="confirm.count"]`), "24"), note, chromedp.Click(chromedp.CSS(confirming)))
	b.see(`!document.querySelector("form.confirm") || document.querySelector(".alert.bad, .problem")`)
	require.Zero(t, s.number(lettersIn, "invalid_payload", "discarded"))
	b.open(plan)
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name="confirm.count"]`), "23"), note, chromedp.Click(chromedp.CSS(confirming)), chromedp.WaitVisible(chromedp.CSS(running)))
	require.Eventually(t, func() bool { return s.number(lettersIn, "invalid_payload", "discarded") == 23 }, patience, tick)
	require.Equal(t, 1, s.number(lettersIn, "invalid_payload", "open"), "the later death was never seen, so it is not touched")
	b.see(`/done/.test(document.querySelector("h1").innerText)`)
}

// A topic is paused and resumed. The form that is open stays while the figures around it renew themselves.
func TestPauseAndResumeATopic(t *testing.T) {
	t.Parallel()
	s := newSite(t, below(func(c *ui.Config) { withChanges(c); live(c) }))
	b := newTab(t, s.url)
	b.open("/topics")
	const form = `form[action$="/topics/billing/pause"]`
	b.do(chromedp.Click(chromedp.CSS(`tr:has(`+form+`) summary`)), chromedp.SendKeys(chromedp.CSS(form+` input[name="note"]`), "the consumer is migrated"))
	js[any](b, `document.activeElement.blur()`)
	b.see(pillAge + " >= 2") // answers come, and the form is left as it is
	require.Equal(t, "the consumer is migrated", js[string](b, `document.querySelector('`+form+` input[name="note"]').value`))
	b.do(chromedp.Click(chromedp.CSS(form + " button")))
	b.seeText("by ann@example.com")
	b.seeText("the consumer is migrated")
	require.Equal(t, 1, s.number(`SELECT count(*) FROM outbox_pauses WHERE kind = 'topic' AND value = 'billing'`))
	b.open("/")
	b.seeText("outboxctl resume --topic billing")
	b.open("/topics")
	const lift = `form[action$="/topics/billing/resume"]`
	b.do(chromedp.Click(chromedp.CSS(`tr:has(`+lift+`) summary`)), chromedp.SendKeys(chromedp.CSS(lift+` input[name="note"]`), "done"), chromedp.Click(chromedp.CSS(lift+" button")))
	b.see(`!document.body.innerText.includes("the consumer is migrated")`)
	require.Zero(t, s.number(`SELECT count(*) FROM outbox_pauses`))
}

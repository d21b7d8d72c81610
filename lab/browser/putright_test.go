package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

// The pointer reads a chart, another process shows the same chart, and the head of the table stays in sight.
func TestTheHistoryIsRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	b := newTab(t, s.url)
	b.open("/")
	b.do(chromedp.Click(chromedp.CSS(`main a[href$="/history"]`)))
	b.at("/history")
	b.do(chromedp.Click(chromedp.CSS(`.tabs a[href$="span=7d"]`)))
	b.see(`location.search === "?span=7d" && document.readyState === "complete"`)
	for _, share := range []float64{0.01, 0.5, 0.99} {
		place := js[[]float64](b, `(() => { const r = document.querySelector(".area").getBoundingClientRect(); return [r.x, r.width, r.y + 30]; })()`)
		b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, place[0]+share*place[1], place[2]))
		b.see(`/UTC: in [0-9,]+, out [0-9,]+$/.test(document.querySelector(".plot output").textContent)`)
	}
	require.Equal(t, 1, js[int](b, `document.querySelectorAll(".area i:not([hidden])").length`))
	const readings = `[...document.querySelectorAll(".plot")].map(p => p.dataset.readings)`
	other := newTab(t, serve(t, s.db, nil).url)
	other.open("/history?span=7d")
	require.Equal(t, js[[]string](b, readings), js[[]string](other, readings))

	b.open("/events")
	js[any](b, `(scrollTo(0, 1500), 0)`)
	b.see(`Math.abs(document.querySelector("thead th").getBoundingClientRect().top - document.querySelector(".top").getBoundingClientRect().bottom) < 4`)
	b.see(`document.querySelector(".menu").getBoundingClientRect().top >= document.querySelector(".top").getBoundingClientRect().bottom - 4`)
}

// The head takes a second line where one is not enough, and what sticks below it moves down; a phone's menu shows where one is.
func TestTheHeadHasPlace(t *testing.T) {
	t.Parallel()
	b := newTab(t, newSite(t, nil).url)
	b.do(chromedp.EmulateViewport(1024, 700))
	b.open("/events")
	const height = `document.querySelector(".top").offsetHeight`
	before := js[int](b, height)
	js[any](b, `(document.querySelector(".who").textContent = "service-account-of-the-night-shift@operations.shop.example.com · Operator", scrollTo(0, 1500), 0)`)
	b.see(height + fmt.Sprintf(" > %d", before))
	b.see(`Math.abs(document.querySelector("thead th").getBoundingClientRect().top - document.querySelector(".top").getBoundingClientRect().bottom) < 4`)
	require.LessOrEqual(t, js[int](b, `document.documentElement.scrollWidth`), 1024)
	b.do(chromedp.EmulateViewport(390, 800))
	b.open("/settings")
	b.see(`(box => box.left >= 0 && box.right <= innerWidth)(document.querySelector(".menu [aria-current]").getBoundingClientRect())`)
}

// What waits is tried again now, by a filter; the run is found by its end as lists show it, and a discard is undone from the audit.
func TestRetrySearchAndUndo(t *testing.T) {
	t.Parallel()
	s := newSite(t, below(func(c *ui.Config) { withChanges(c) }))
	b := newTab(t, s.url)
	b.open("/events?status=pending&type=payment_settled")
	b.follow(`.actions form:not(#pick) button[value="retry"]`, confirming)
	const backing = `SELECT count(*) FROM outbox_events WHERE event_type = 'payment_settled' AND published_at IS NULL AND dead_at IS NULL AND next_attempt_at > now()`
	require.Positive(t, s.number(backing))
	count := js[string](b, `document.querySelector("h1").innerText.match(/[0-9,]+/)[0].replace(",", "")`)
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name="confirm.count"]`), count), chromedp.SetValue(chromedp.CSS(`textarea[name="note"]`), "billing is back"), chromedp.Click(chromedp.CSS(confirming)), chromedp.WaitVisible(chromedp.CSS(running)))
	require.Eventually(t, func() bool { return s.number(backing) == 0 }, patience, tick)

	b.open("/dead-letters/" + letterID)
	b.follow(`form.act button[value="discard"]`, confirming)
	b.do(chromedp.SetValue(chromedp.CSS(`textarea[name="note"]`), "by mistake"), chromedp.Click(chromedp.CSS(confirming)), chromedp.WaitVisible(chromedp.CSS(running)))
	const discarded = `SELECT count(*) FROM outbox_dlq WHERE id = $1::text::uuid AND state = 'discarded'`
	require.Eventually(t, func() bool { return s.number(discarded, letterID) == 1 }, patience, tick)
	b.open("/audit")
	b.follow(`form[action$="/undo"] button`, confirming)
	b.do(chromedp.SetValue(chromedp.CSS(`textarea[name="note"]`), "it was a mistake"), chromedp.Click(chromedp.CSS(confirming)), chromedp.WaitVisible(chromedp.CSS(running)))
	require.Eventually(t, func() bool { return s.number(discarded, letterID) == 0 }, patience, tick)

	for pasted, seen := range map[string]string{letterID[len(letterID)-12:]: letterID, "payment_settled": "payment_settled", "max_attempts:billing-deadline": "billing"} {
		b.open("/")
		b.do(chromedp.SendKeys(chromedp.CSS(`.search input`), pasted+"\r"))
		b.see(`location.pathname !== "/ops/outbox/" && document.readyState === "complete"`)
		b.seeText(seen)
	}
}

package browser

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

const (
	pillSays = `document.querySelector(".pill").textContent`
	pillAge  = `parseInt(document.querySelector(".pill .age").textContent.slice(3))`
)

// The pill follows the last answer: a page that is paused, whose viewer is signed out or whose server is gone never looks live.
func TestThePillFollowsTheLastAnswer(t *testing.T) {
	t.Parallel()
	var out atomic.Bool
	s := newSite(t, func(c *ui.Config) {
		live(c)
		c.Identify = func(*http.Request) (ui.Identity, error) {
			if out.Load() {
				return ui.Identity{}, ui.ErrNotSignedIn
			}
			return ui.Identity{Name: "ann@example.com"}, nil
		}
	})
	b := newTab(t, s.url)
	b.expect("answered 401", "status of 401", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "Failed to load")
	b.open("/")
	b.see(pillSays + `.startsWith("Live · ")`)

	// What the keyboard holds is left as it was, and its age with it.
	js[any](b, `document.querySelector("main [data-part] a").focus()`)
	s.exec(`DELETE FROM outbox_publishers`)
	b.see(pillAge + " >= 2")
	require.False(t, js[bool](b, `document.body.innerText.includes("No publisher is alive")`))
	js[any](b, `document.activeElement.blur()`)
	b.seeText("No publisher is alive")
	b.see(pillAge + " < 2")

	b.do(chromedp.Click(chromedp.CSS(".pause")))
	b.see(pillSays + `.startsWith("Paused · ") && document.querySelector(".pause").textContent === "Resume updates"`)
	b.do(chromedp.Click(chromedp.CSS(".pause")))
	b.see(pillSays + `.startsWith("Live · ")`)

	out.Store(true)
	b.see(pillSays + `.startsWith("Disconnected since ") && document.body.classList.contains("stale")`)
	out.Store(false)
	b.see(pillSays + `.startsWith("Live · ") && !document.body.classList.contains("stale")`)

	s.close()
	b.see(pillSays + `.startsWith("Disconnected since ") && document.body.classList.contains("stale")`)
	require.Less(t, js[float64](b, `Number(getComputedStyle(document.querySelector(".tiles")).opacity)`), 0.9, "figures are greyed")
}

// The row under the pointer stays where it is: what is clicked must be what was looked at.
func TestARowThatIsPointedAtStays(t *testing.T) {
	t.Parallel()
	s := newSite(t, live)
	b := newTab(t, s.url)
	b.open("/")
	b.see(pillSays + `.startsWith("Live · ")`)
	place := js[[]float64](b, `(() => { const r = document.querySelector("main .columns .rows tbody tr").getBoundingClientRect(); return [r.x + 20, r.y + 8]; })()`)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, place[0], place[1]))
	b.see(`document.querySelector("tr:hover")`)
	before := js[string](b, `document.querySelector("main .columns").innerText`)
	s.exec(`DELETE FROM outbox_publishers`)
	b.seeText("No publisher is alive") // the rest of the page goes on
	require.Equal(t, before, js[string](b, `document.querySelector("main .columns").innerText`))
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
	b.seeText("None is alive.")
}

// Relative times go on while nobody asks for the page again.
func TestRelativeTimesTick(t *testing.T) {
	t.Parallel()
	b := newTab(t, newSite(t, nil).url)
	b.open("/events")
	js[any](b, `(document.querySelector("time[data-age]").dataset.age = "59", 0)`)
	b.see(`document.querySelector("time[data-age]").textContent === "1m ago"`)
}

// From the overview to the key that a dead event blocks, and to what waits behind it.
func TestABlockedKeyIsFound(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *ui.Config) { revealing(c); live(c) })
	s.exec(`
WITH e AS (
INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, ordering_key, dead_at, attempt_count, last_error, created_at)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'default/order-4711', CASE i WHEN 1 THEN now() END, CASE i WHEN 1 THEN 10 ELSE 0 END, CASE i WHEN 1 THEN 'amount: must be a number' END, now() - interval '1 hour'
  FROM generate_series(1, 4) AS i ORDER BY i
RETURNING *)
INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count, topic, fingerprint)
SELECT id, event_type, aggregate_type, aggregate_id, payload_json, 'invalid_payload', last_error, 10, 'domain', 'f' FROM e WHERE dead_at IS NOT NULL`)
	b := newTab(t, s.url)
	b.open("/")
	b.seeText("Blocked by a dead event: 1 ordering key; parked behind it: 3 events, the oldest for 1h")
	b.follow(`.troubles a[href$="blocking=true"]`, `.rows a[href*="/ordering-keys"]`)
	b.seeText("blocks 3 events")
	b.follow(`.rows a[href*="/ordering-keys"]`, `button[value="discard"]`)
	b.seeText("Parked behind it: 3 events")
	require.Equal(t, []string{"Edit and replay…", "Edit the payload", "Discard…", "Replay…"}, js[[]string](b, `[...document.querySelectorAll("main summary, main form button")].map(e => e.textContent)`), "what would fail again unchanged is edited")
	const first = `document.querySelector("main .primary")`
	before := js[string](b, `getComputedStyle(`+first+`).backgroundColor`)
	place := js[[]float64](b, `(box => [box.x + 9, box.y + 9])(`+first+`.getBoundingClientRect())`)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, place[0], place[1]))
	b.see(first + `.matches(":hover")`)
	require.Equal(t, before, js[string](b, `getComputedStyle(`+first+`).backgroundColor`), "its words stay readable under the pointer")
	b.follow(`button[value="discard"]`, confirming)
	b.seeText("It releases 3 events")
}

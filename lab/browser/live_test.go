package browser

import (
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/ui"
)

// A page that is open while the database goes away keeps its figures and says how old they are; it comes back by itself.
func TestTheDatabaseGoesAndComesBack(t *testing.T) {
	t.Parallel()
	chromium.open(t)
	server, db := outboxtest.Postgres(t, devstack.PostgresParams{})
	_, err := db.Pool.Exec(t.Context(), world)
	require.NoError(t, err)
	s := serve(t, db, live)
	b := newTab(t, s.url)
	b.expect("answered 503", "status of 503")
	b.open("/")
	b.seeText("Open dead letters")
	figure := js[string](b, `document.querySelector(".figure").textContent`)
	require.NotEqual(t, "0", figure)

	require.NoError(t, server.Kill())
	b.seeText("The database does not answer")
	b.see(pillSays + `.startsWith("Disconnected since ") && document.body.classList.contains("stale")`)
	require.Equal(t, figure, js[string](b, `document.querySelector(".figure").textContent`), "the last figures stay")
	require.Equal(t, http.StatusServiceUnavailable, s.status(http.MethodGet, "/dead-letters"))
	b.open("/dead-letters")
	b.seeText("The database does not answer")

	b.open("/")
	require.NoError(t, server.Restart(t.Context()))
	b.see(`!document.body.innerText.includes("does not answer") && document.querySelector(".figure").textContent === ` + "`" + figure + "`")
	b.open("/dead-letters")
	b.seeText("payment_settled")
}

// A list does not move by itself: it says that there is more, and a click shows it. Times are shown as one chooses.
func TestAListSaysWhatIsNewer(t *testing.T) {
	t.Parallel()
	s := newSite(t, live)
	b := newTab(t, s.url)
	b.open("/dead-letters?reason=invalid_payload")
	first := js[string](b, `document.querySelector(".rows tbody").innerText`)
	s.exec(`INSERT INTO outbox_dlq (event_id, event_type, aggregate_type, aggregate_id, payload_json, error_reason, error_message, attempt_count)
SELECT gen_random_uuid(), 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'invalid_payload', 'a newer one', 1 FROM generate_series(1, 3)`)
	b.seeText("3 newer, show")
	require.Equal(t, first, js[string](b, `document.querySelector(".rows tbody").innerText`))
	b.press("n")
	b.seeText("a newer one")
	require.True(t, js[bool](b, `document.querySelector(".newer").hidden`))

	b.do(chromedp.Click(chromedp.CSS(".times")), chromedp.Click(chromedp.CSS(".times")))
	require.Regexp(t, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`, js[string](b, `document.querySelector(".rows time").textContent`))
	b.open("/events")
	require.Equal(t, "Times: UTC", js[string](b, `document.querySelector(".times").textContent`), "the choice is kept")
}

// Seven tabs of one person load and stay current: none holds a connection of the browser's six for the host.
func TestSevenTabs(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *ui.Config) { c.Refresh = time.Second })
	first := newTab(t, s.url)
	first.open("/")
	tabs := []*tab{first}
	for range 6 {
		next := first.another()
		next.open("/")
		next.seeText("Open dead letters")
		tabs = append(tabs, next)
	}
	s.exec(`DELETE FROM outbox_publishers`)
	for _, b := range tabs {
		b.do(chromedp.Func(bringToFront))
		b.seeText("No publisher is alive")
	}
}

// A page that another version of the program has sent is loaded again, once the newer one answers.
func TestAPageOfAnOlderVersionIsLoadedAgain(t *testing.T) {
	t.Parallel()
	b := newTab(t, newSite(t, live).url)
	b.open("/")
	js[any](b, `(window.old = true, document.querySelector("script").setAttribute("src", "/assets/page-older.js"))`)
	b.see(`!window.old && !document.querySelector("script").src.includes("older")`)
}

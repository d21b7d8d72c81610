package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

// secret is in every payload of the world.
const secret = "canary-7f3a"

// revealing lets an operator see what one event carries.
func revealing(c *ui.Config) { withChanges(c); c.Payloads = ui.PayloadsReveal }

// What an event carries is shown to an operator who says why, and only then; afterwards the browser has nothing of it.
func TestReveal(t *testing.T) {
	t.Parallel()
	s := newSite(t, below(revealing))
	off := serve(t, s.db, withChanges)
	viewer := serve(t, s.db, func(c *ui.Config) {
		revealing(c)
		c.Identify = func(*http.Request) (ui.Identity, error) { return ui.Identity{Name: "eve@example.com"}, nil }
	})
	for want, refusing := range map[int]*site{http.StatusNotFound: off, http.StatusForbidden: viewer} {
		b := newTab(t, refusing.url)
		b.open("/dead-letters/" + letterID)
		require.False(t, js[bool](b, `document.body.innerHTML.includes("/reveal")`))
		require.Equal(t, want, refusing.status(http.MethodPost, "/dead-letters/"+letterID+"/reveal"))
	}
	const audited = `SELECT count(*) FROM outbox_audit WHERE action = 'payload.reveal' AND actor = 'ann@example.com' AND note = 'INC-4411'`
	b := newTab(t, s.url)
	b.open("/dead-letters/" + letterID)
	require.False(t, js[bool](b, `document.documentElement.outerHTML.includes("`+secret+`")`))
	before := js[int](b, "history.length")
	b.do(chromedp.Click(chromedp.CSS(".reveal summary")), chromedp.SetValue(chromedp.CSS(".reveal input[name=note]"), "INC-4411"), chromedp.Click(chromedp.CSS(".reveal button")))
	b.seeText(secret)
	require.Equal(t, 1, s.number(audited))
	require.False(t, js[bool](b, `location.href.includes("`+secret+`")`))

	b.do(chromedp.Click(chromedp.CSS(".crumbs a")))
	b.see(`!location.pathname.endsWith("/reveal")`) // the menu has the page's words as well
	require.False(t, js[bool](b, `document.documentElement.outerHTML.includes("`+secret+`") || JSON.stringify({...localStorage, ...sessionStorage}).includes("`+secret+`") || JSON.stringify(history.state || "").includes("`+secret+`")`))
	require.Zero(t, js[int](b, `caches.keys().then(k => k.length)`))
	require.Equal(t, 1, s.number(audited), "looking is one row")
	// Going back shows a page that has to be sent again, not the payload.
	b.expect("net::ERR_CACHE_MISS")
	require.LessOrEqual(t, before, js[int](b, "history.length"))
	b.goBack()
	require.Eventually(t, func() bool { return !b.shows(secret) }, patience, tick)
	require.Equal(t, 1, s.number(audited))
}

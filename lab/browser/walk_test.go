package browser

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/ui"
)

// troubles make a bad morning worse: pages show the most they can.
//
//go:embed testdata/troubles.sql
var troubles string

const (
	blockingID = "01930000-0000-7000-8000-0000000000d7"
	blockedKey = "default%2Fvendor_order%2F01930000-0000-7000-8000-0000000000a1"
)

// walk visits every page an operator can come to: each address, and what only forms lead to.
func (s *site) walk(b *tab, visit func(page string)) {
	s.t.Helper()
	b.expect("answered 404", "status of 404", "answered 409", "status of 409")
	plan := s.plan()
	for _, address := range append(s.addresses(plan), "/no-such-page", "/dead-letters?blocking=true", "/dead-letters/"+blockingID, "/ordering-keys?key="+blockedKey, "/search?q=canceled", "/consumers?consumer=mailer") {
		b.open(address)
		visit(address)
	}
	running := s.plan()
	for state, lease := range map[string]string{"running": "1 hour", "interrupted": "-1 minute"} {
		s.exec(`UPDATE outbox_plans SET state = 'running', started_at = now(), runner = 'ben@example.com', lease_until = now() + $2::text::interval WHERE id = $1::text::uuid`, running, lease)
		s.exec(`UPDATE outbox_plan_chunks SET done = least(120, size), counts = jsonb_build_object('replayed', least(120, size)) WHERE plan_id = $1::text::uuid`, running)
		b.open("/plans/" + running)
		b.see(`document.querySelector("h1 .s-` + state + `")`)
		visit("a run that is " + state)
	}
	b.open("/plans/" + plan)
	b.confirm("1")
	b.seeText("Nothing was changed")
	visit("a refusal")
	b.open("/dead-letters/" + letterID)
	js[any](b, `document.querySelectorAll("details").forEach(d => d.open = true)`)
	visit("the forms of a dead letter")
	b.do(chromedp.SetValue(chromedp.CSS(".reveal input[name=note]"), "INC-4411"), chromedp.Click(chromedp.CSS(".reveal button")))
	b.see(`document.querySelector(".payload")`)
	visit("a payload")
	b.open("/dead-letters/" + blockingID)
	js[any](b, `document.querySelectorAll("details").forEach(d => d.open = true)`)
	b.do(chromedp.SetValue(chromedp.CSS(".fold input[name=note]"), "INC-4411"), chromedp.Click(chromedp.CSS(".fold form button")))
	b.see(`document.querySelector("textarea[name=data]")`)
	visit("a payload that is edited")
	b.open("/dead-letters/" + letterID)
	b.follow(`form.act button[value="discard"]`, confirming)
	visit("a plan of one row")
	b.do(chromedp.SetValue(chromedp.CSS(confirmNote), "INC-4411"), chromedp.Click(chromedp.CSS(confirming)))
	b.see(`document.querySelector("h1 .s-done")`)
	visit("a run that is done")
	b.press("?")
	b.see(`document.querySelector(".help").open`)
	visit("the keys")
	b.press("\x1b")
}

// everything is a page with all that can be switched on, and a consumer that remembers an event.
func everything(t *testing.T) func(*ui.Config) {
	t.Helper()
	redis := outboxtest.Redis(t).Client
	guard, err := consume.New(redis, "mailer", consume.Options{})
	require.NoError(t, err)
	require.NoError(t, guard.Announce(t.Context()))
	_, err = guard.CheckAndMarkProcessed(t.Context(), uuid.MustParse("01930000-0000-7000-8000-0000000000e2"), consume.DefaultTTL)
	require.NoError(t, err)
	return func(c *ui.Config) { revealing(c); c.Redis = redis }
}

// On every page, forms and refusals included, axe finds nothing in either theme, and nothing is cut off or needs to be scrolled
// sideways, from a phone to a wide screen, zoomed to 200 %, and on paper.
func TestEveryPageIsAccessibleAndFits(t *testing.T) {
	t.Parallel()
	s := newSite(t, everything(t), troubles)
	b := newTab(t, s.url)
	check := func(page string) { b.fits(page); b.axe(page) }
	s.walk(b, check)
	stranger := newTab(t, signedIn(t, s, &signin.Link{Token: signin.NewToken(), Now: time.Now}).url)
	stranger.expect("answered 401", "status of 401")
	stranger.open("/")
	stranger.fits("sign in")
	stranger.axe("sign in")
}

// Below a path every link, form and asset of every page, forms and refusals included, has the prefix.
func TestEveryPageBelowAPath(t *testing.T) {
	t.Parallel()
	s := newSite(t, below(everything(t)), troubles)
	b := newTab(t, s.url)
	s.walk(b, func(page string) {
		require.True(t, strings.HasPrefix(js[string](b, "location.pathname"), "/ops/outbox/"), page)
		require.Empty(t, js[[]string](b, `[...document.querySelectorAll("[href], [src], [action]")].map(e => e.getAttribute("href") ?? e.getAttribute("src") ?? e.getAttribute("action")).filter(to => !to.startsWith("/ops/outbox/") && to !== "#main" && to !== "")`), page)
	})
}

// widths are those of phones, tablets and screens, and 640, which is a usual screen zoomed to 200 %.
var widths = []int64{360, 390, 480, 640, 768, 834, 1024, 1280, 1600, 1920, 2560}

// outside finds what is beyond the right edge of the window, or of a box that cuts it off without saying so.
const outside = `[...document.querySelectorAll("body, main, main *, .top, .top *, .foot *")].filter(e => {
	if (e.closest("svg, .menu, .skip, thead, .scroll, pre, textarea, .help:not([open])")) return false;
	const style = getComputedStyle(e), box = e.getBoundingClientRect();
	return box.right > innerWidth + 1 || style.overflowX !== "visible" && style.textOverflow !== "ellipsis" && !/INPUT|SELECT/.test(e.tagName) && e.scrollWidth > e.clientWidth + 1;
}).map(e => e.outerHTML.slice(0, 90)).slice(0, 3)`

// fits looks at every width, and at paper.
func (b *tab) fits(page string) {
	b.t.Helper()
	for _, width := range widths {
		b.do(chromedp.EmulateViewport(width, 900))
		require.Empty(b.t, js[[]string](b, outside), "%s at %d", page, width)
		require.LessOrEqual(b.t, js[int](b, `document.documentElement.scrollWidth`), int(width), "%s at %d", page, width)
		require.GreaterOrEqual(b.t, js[int](b, `document.querySelector(".search")?.offsetWidth ?? 160`), 160, "%s at %d: there is place to search", page, width)
	}
	b.media("light", "print")
	require.True(b.t, js[bool](b, `[...document.querySelectorAll(".menu")].every(e => getComputedStyle(e).display === "none") && document.querySelector("main").getBoundingClientRect().width > 0`), page)
	b.media("light", "screen")
	b.do(chromedp.EmulateViewport(1280, 800))
}

// axeFile is the accessibility checker, fetched by scripts/setup.sh test.
const axeFile = "../../bin/axe-4.14.0.min.js"

// axe asks the checker about the page as it is, best practices included.
func (b *tab) axe(page string) {
	b.t.Helper()
	script, err := os.ReadFile(filepath.FromSlash(axeFile))
	if os.IsNotExist(err) {
		if os.Getenv("OUTBOXCTL_REQUIRE_BROWSER") != "" {
			b.t.Fatalf("%s is missing: scripts/setup.sh test fetches it", axeFile)
		}
		b.t.Skip("NOT PROVEN: axe is not here; scripts/setup.sh test fetches it, where there is npm")
	}
	require.NoError(b.t, err)
	js[any](b, string(script)+"; null")
	for _, theme := range []string{"light", "dark"} {
		b.media(theme, "screen")
		rules := "{}"
		if theme == "dark" { // nothing else depends on it
			rules = `{runOnly: ["color-contrast"]}`
		}
		found := js[json.RawMessage](b, `axe.run(`+rules+`).then(r => r.violations.map(v => ({rule: v.id, help: v.help, where: v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.any[0] ? n.any[0].message : "")) })))`)
		require.JSONEq(b.t, "[]", string(found), "%s in %s", page, theme)
	}
}

// With -look every page is kept as a picture: beauty has no assertion.
func TestLook(t *testing.T) {
	if *looks == "" {
		t.Skip("-look names the folder for the pictures")
	}
	s := newSite(t, everything(t), troubles)
	b := newTab(t, s.url)
	s.walk(b, func(page string) {
		name := strings.Trim(strings.NewReplacer("/", "_", "?", "_", "&", "_", "=", "_", " ", "_").Replace(page), "_")
		for _, theme := range []string{"light", "dark"} {
			b.media(theme, "screen")
			for width, height := range map[int64]int64{390: 1500, 1024: 900, 1600: 1000} {
				b.do(chromedp.EmulateViewport(width, height))
				b.picture(filepath.Join(*looks, fmt.Sprintf("%.30s-%s-%d.png", name, theme, width)))
			}
		}
		b.do(chromedp.EmulateViewport(1280, 800))
	})
}

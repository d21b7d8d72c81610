package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/ui"
)

// atBothPaths makes a journey at the root and again below a path.
func atBothPaths(t *testing.T, journey func(t *testing.T, s *site)) {
	t.Helper()
	t.Parallel()
	for name, base := range map[string]string{"root": "/", "below a path": "/ops/outbox"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journey(t, newSite(t, func(c *ui.Config) { c.BasePath = base }))
		})
	}
}

// A person without a mouse gets from the first look to the event behind the largest cause.
func TestFirstLookByKeyboardAlone(t *testing.T) { atBothPaths(t, firstLook) }

func firstLook(t *testing.T, s *site) {
	b := newTab(t, s.url)
	b.open("/")
	b.seeText("Open dead letters")
	b.press("?")
	b.see(`document.querySelector(".help").open`)
	b.press("\x1b")
	b.see(`!document.querySelector(".help").open`)
	b.press("gc")
	b.at("/causes")
	b.tabTo("DeadlineExceeded")
	b.press("\r")
	b.see(`location.pathname.endsWith("/dead-letters") && location.search.includes("fingerprint=")`)
	b.seeText("payment_settled")
	b.press("jjk")
	require.True(t, js[bool](b, `document.activeElement === document.querySelector(".rows tbody tr td[data-main] a")`), "j and k walk through the rows")
	b.press("\r")
	b.seeText("History")
	b.tabTo("ledger_event")
	b.press("\r")
	b.see(`location.search.startsWith("?aggregate=ledger_event")`)
}

// tabTo presses Tab until something with these words in it has the focus.
func (b *tab) tabTo(words string) {
	b.t.Helper()
	for range 60 {
		b.press("\t")
		if js[bool](b, fmt.Sprintf("document.activeElement.tagName === 'A' && document.activeElement.innerText.includes(%q)", words)) {
			require.True(b.t, js[bool](b, "document.activeElement.matches(':focus-visible')"), "one sees where one is")
			return
		}
	}
	b.t.Fatalf("Tab does not reach %q", words)
}

// A filter leads to an address worth copying, the back button to where one was, and the address shows the same in another browser.
func TestFilterBackAndCopiedLink(t *testing.T) { atBothPaths(t, filterAndBack) }

func filterAndBack(t *testing.T, s *site) {
	b := newTab(t, s.url)
	b.open("/dead-letters")
	b.do(chromedp.SetValue(chromedp.CSS(`select[name="reason"]`), "message_too_large"), chromedp.SetValue(chromedp.CSS(`input[name="since"]`), "30d"), chromedp.Click(chromedp.CSS(`.filters button`)))
	b.at("/dead-letters?reason=message_too_large&since=30d")
	rows := js[int](b, `document.querySelectorAll(".rows tbody tr").length`)
	require.Equal(t, 42, rows)
	b.seeText("outboxctl dlq list --reason message_too_large --since 30d")
	b.do(chromedp.Click(chromedp.CSS(`.chips a`)))
	b.at("/dead-letters?since=30d")
	js[any](b, "history.back()")
	b.at("/dead-letters?reason=message_too_large&since=30d")
	copied := js[string](b, `document.querySelector("[data-link]").dataset.link`)
	js[any](b, "history.back()")
	b.at("/dead-letters")

	other := newTab(t, s.url)
	other.open("/dead-letters?reason=message_too_large&since=30d")
	require.Equal(t, rows, js[int](other, `document.querySelectorAll(".rows tbody tr").length`))
	other.open(strings.TrimPrefix(copied, js[string](b, "document.body.dataset.base")))
	require.Contains(t, js[string](other, "location.search"), "since=20", "an instant")
	require.Equal(t, rows, js[int](other, `document.querySelectorAll(".rows tbody tr").length`))
	require.Equal(t, "message_too_large", js[string](other, `document.querySelector('select[name="reason"]').value`))
	other.open("/search?q=" + url.QueryEscape(letterID))
	other.at("/dead-letters/" + letterID)
}

// Without JavaScript the page shows and filters the same.
func TestWithoutJavaScript(t *testing.T) { atBothPaths(t, withoutJavaScript) }

func withoutJavaScript(t *testing.T, s *site) {
	b := newTab(t, s.url)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	b.open("/")
	b.hasText("Open dead letters")
	b.do(chromedp.Click(chromedp.CSS(`.menu a:nth-of-type(3)`)), chromedp.WaitVisible(chromedp.CSS(`select[name="reason"]`)))
	b.do(chromedp.SendKeys(chromedp.CSS(`input[name="since"]`), "30d"), chromedp.SendKeys(chromedp.CSS(`input[name="error-like"]`), "larger than"), chromedp.Click(chromedp.CSS(`.filters button`)), chromedp.WaitVisible(chromedp.CSS(`.chips`)))
	b.hasText("message_too_large")
	b.hasText("outboxctl dlq list --since 30d --error-like 'larger than'")
	b.do(chromedp.Click(chromedp.CSS(`.rows tbody a`)), chromedp.WaitVisible(chromedp.CSS(`.history`)))
	b.hasText("10,485,760")
}

// hasText asserts words on a page where no script can look for them.
func (b *tab) hasText(words string) {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.TextContent(chromedp.CSS("body")))
	require.NoError(b.t, err)
	require.Contains(b.t, text, words)
}

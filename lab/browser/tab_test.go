package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a journey waits for what must happen, a machine may be busy; tick is how often it looks.
const (
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

// tab is one person's browser: cookies and storage are its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string
	// expected are parts of problems that the journey brings about.
	expected []string
}

// newTab opens a tab of a new person, who knows the page at base. When the journey ends it must not have seen a problem.
func newTab(t *testing.T, base string) *tab {
	t.Helper()
	return openTab(t, base, chromedp.WithNewBrowserContext())
}

// another opens a further tab of the same person.
func (b *tab) another() *tab {
	b.t.Helper()
	return openTab(b.t, b.base, chromedp.WithExistingBrowserContext(chromedp.FromContext(b.ctx).BrowserContextID))
}

func openTab(t *testing.T, base string, whose chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium.open(t), whose)
	b := &tab{t: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Do(ctx))
	// Journeys run beside each other; only one tab of a browser has the focus.
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	require.NoError(t, err)
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	b.watch(watching, &watchers)
	t.Cleanup(func() {
		stop()
		watchers.Wait()
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Empty(t, b.problems, "what the browser complained about")
	})
	return b
}

// watch collects errors on the console, requests that fail and requests to other servers.
func (b *tab) watch(ctx context.Context, watchers *sync.WaitGroup) {
	console := chromedp.Console(ctx)
	sent := chromedp.Events(ctx, network.RequestWillBeSent)
	answered := chromedp.Events(ctx, network.ResponseReceived)
	watchers.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.IsException() {
				b.problem("console: %s", m.String())
			}
		}
	})
	watchers.Go(func() {
		for e, err := range sent {
			if err != nil {
				return
			}
			if to, err := url.Parse(e.Request.URL); err == nil && to.Scheme != "data" && !strings.HasPrefix(e.Request.URL, b.origin()) {
				b.problem("asked another host: %s", e.Request.URL)
			}
		}
	})
	watchers.Go(func() {
		for e, err := range answered {
			if err != nil {
				return
			}
			if e.Response.Status >= 400 {
				b.problem("%s answered %d", e.Response.URL, int(e.Response.Status))
			}
		}
	})
}

func (b *tab) origin() string {
	to, err := url.Parse(b.base)
	require.NoError(b.t, err)
	return to.Scheme + "://" + to.Host + "/"
}

func (b *tab) problem(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	for _, part := range b.expected {
		if strings.Contains(text, part) {
			return
		}
	}
	b.problems = append(b.problems, text)
}

// expect lets problems pass that have one of these parts.
func (b *tab) expect(parts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, parts...)
}

// do takes one step after the other. A live page may replace what a step has just found: nothing has happened to it yet, so the
// step is taken again.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for _, step := range steps {
		err := chromedp.Do(ctx, step)
		for wasReplaced(err) {
			err = chromedp.Do(ctx, step)
		}
		require.NoError(b.t, err)
	}
}

// follow clicks until what that leads to is there: a live page may move what a click has just aimed at.
func (b *tab) follow(click, to string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, patience/8)
		defer cancel()
		pressing, stop := context.WithTimeout(ctx, patience/16)
		defer stop()
		_ = chromedp.Do(pressing, chromedp.Click(chromedp.CSS(click))) // it may have led there before
		return chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS(to))) == nil
	}, patience, tick, to)
}

// wasReplaced reports whether a step failed because its node is no longer in the page.
func wasReplaced(err error) bool {
	var answer *cdproto.Error
	return errors.As(err, &answer) && slices.Contains([]string{
		"Could not find node with given id", "Could not compute content quads.", "Node is detached from document",
	}, answer.Message)
}

// open goes to an address below the page's own.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// js evaluates an expression in the page.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return value
}

// see waits until an expression is true, also across the loading of a page.
func (b *tab) see(expression string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		seen, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("document.readyState === 'complete' && !!("+expression+")"))
		return err == nil && seen
	}, patience, 20*time.Millisecond, expression)
}

// seeText waits until the page shows some words.
func (b *tab) seeText(text string) {
	b.t.Helper()
	b.see(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// at waits for an address below the page's own.
func (b *tab) at(path string) {
	b.t.Helper()
	b.see(fmt.Sprintf("location.href === %q", b.base+path))
}

// press types keys, as a person without a mouse does.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

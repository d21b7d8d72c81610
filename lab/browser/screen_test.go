package browser

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func bringToFront(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, page.BringToFront, cdp.Empty{})
	return err
}

// goBack presses the browser's back button.
func (b *tab) goBack() {
	b.t.Helper()
	js[any](b, "setTimeout(() => history.back(), 0)")
}

// shows reports whether the page, whatever it is, has some words.
func (b *tab) shows(words string) bool {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf("document.documentElement.outerHTML.includes(%q)", words)))
	return err == nil && found
}

// media makes the page believe in a theme (light, dark) and a medium (screen, print).
func (b *tab) media(theme, medium string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
	require.NoError(b.t, err)
}

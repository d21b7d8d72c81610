package browser

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/ui"
)

var (
	pictures = flag.String("pictures", "", "folder that gets the pictures of the documentation")
	looks    = flag.String("look", "", "folder that gets every page in both themes and three widths, to be looked at")
)

// documented are the pictures that README and docs show, and the pages they are of.
func documented(plan string) map[string]string {
	return map[string]string{
		"ui-overview": "/", "ui-causes": "/causes", "ui-plan": "/plans/" + plan, "ui-event": "/dead-letters/" + letterID,
	}
}

// The pictures that the documentation shows are there. With -pictures they are taken.
func TestPictures(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "docs", "images")
	if *pictures != "" {
		folder = *pictures
		takePictures(t, folder)
	}
	for name := range documented("") {
		for _, theme := range []string{"light", "dark"} {
			require.FileExists(t, filepath.Join(folder, name+"-"+theme+".png"), "make screenshots")
		}
	}
	shown, err := filepath.Glob(filepath.Join(folder, "ui-*.png"))
	require.NoError(t, err)
	require.Len(t, shown, 2*len(documented("")), "none is left over")
}

func takePictures(t *testing.T, folder string) {
	t.Helper()
	_, db := outboxtest.Postgres(t, devstack.PostgresParams{}) // its database has a name for pictures
	_, err := db.Pool.Exec(t.Context(), world)
	require.NoError(t, err)
	s := serve(t, db, func(c *ui.Config) { withChanges(c); live(c) })
	plan := s.plan()
	b := newTab(t, s.url)
	b.do(chromedp.EmulateViewport(1280, 800))
	for name, address := range documented(plan) {
		for _, theme := range []string{"light", "dark"} {
			b.media(theme, "screen")
			s.exec(`UPDATE outbox_publishers SET last_seen_at = now()`)
			b.open(address)
			b.picture(filepath.Join(folder, name+"-"+theme+".png"))
		}
	}
}

// picture writes what is to be seen of the page now.
func (b *tab) picture(path string) {
	b.t.Helper()
	image, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(path, image, 0o644))
}

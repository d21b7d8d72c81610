package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A page that is open while the database goes away keeps its figures and says how old they are; it comes back by itself.
func TestTheDatabaseGoesAndComesBack(t *testing.T) {
	t.Parallel()
	chromium.open(t)
	server, db := outboxtest.Postgres(t, devstack.PostgresParams{})
	_, err := db.Pool.Exec(t.Context(), world)
	require.NoError(t, err)
	s := serve(t, db, nil)
	b := newTab(t, s.url)
	b.expect("answered 503", "status of 503")
	b.open("/")
	b.seeText("Open dead letters")
	figure := js[string](b, `document.querySelector(".figure").textContent`)
	require.NotEqual(t, "0", figure)

	require.NoError(t, server.Kill())
	b.seeText("The database does not answer")
	require.Equal(t, figure, js[string](b, `document.querySelector(".figure").textContent`), "the last figures stay")
	require.Equal(t, 503, s.status("GET", "/api/v1/dead-letters"))
	b.open("/dead-letters")
	b.seeText("The database does not answer")

	b.open("/")
	require.NoError(t, server.Restart(t.Context()))
	b.see(`!document.body.innerText.includes("does not answer") && document.querySelector(".figure").textContent === ` + "`" + figure + "`")
	b.open("/dead-letters")
	b.seeText("payment_settled")
}

// Seven tabs of one person load and stay current: none holds a connection of the browser's six for the host.
func TestSevenTabs(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
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

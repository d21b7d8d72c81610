package ui_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/ui"
)

// past is a history of 30 hours and two types: 2 came in, 1 went out and none failed or died in each minute, which took 5 to 10 ms.
const past = `
INSERT INTO outbox_history (at, topic, event_type, figures, minutes)
SELECT date_trunc('hour', now(), 'UTC') - i * interval '1 hour', v.topic, v.name, ARRAY[120, 60, 0, 0, 0, 60],
       (array_fill(2, ARRAY[60]) || array_fill(1, ARRAY[60]) || array_fill(0, ARRAY[180]) || array_fill(1, ARRAY[60]))
  FROM generate_series(0, 29) AS i, (VALUES ('domain', 'order_created'), ('domain', 'order_canceled'), ('domain', ''), ('', '')) AS v(topic, name)`

// The history is the database's: every page shows the same, with axes from zero, a reading of each step and a table.
func TestTheHistoryIsShown(t *testing.T) {
	b := setup(t, nil)
	_, err := b.db.Pool.Exec(t.Context(), past)
	require.NoError(t, err)
	readings := regexp.MustCompile(`data-readings="([^"]*)"`)
	for _, page := range []*bundle{b, setup2(t, b, "")} {
		for span, steps := range map[string][2]int{"1h": {60, 60}, "24h": {145, 150}, "7d": {169, 169}} {
			status, _, body := page.get("/history?span=" + span)
			require.Equal(t, http.StatusOK, status, body)
			found := readings.FindAllStringSubmatch(body, -1)
			require.Len(t, found, 3)
			for _, f := range found {
				n := strings.Count(f[1], ";") + 1
				require.True(t, n >= steps[0] && n <= steps[1], "%s has %d steps", span, n)
			}
			require.Contains(t, body, "<span>0</span>", "from zero")
			require.Contains(t, body, "The charts as a table")
			require.Contains(t, body, "order_created</a>")
			require.Less(t, len(body), 80_000)
		}
	}
	_, _, body := b.get("/history?span=7d&topic=domain&type=order_created")
	require.Contains(t, body, "120|60;120|60;")
	require.NotContains(t, body, "order_canceled</a>")

	for query, want := range map[string][2]string{
		"?span=7d&topic=domain&type=order_created": {"3,600", "1,800"}, "?type=order_created": {"120", "60"}, "?topic=domain": {"120", "60"}, "": {"120", "60"},
	} {
		_, _, body := b.get("/history" + query)
		row := `order_created</a></td><td data-label="Topic"><bdi>domain</bdi></td>`
		for _, cell := range []string{"In:" + want[0], "Out:" + want[1], "Failed:0", "Dead:0", "p50:8 ms", "p99:10 ms"} {
			name, text, _ := strings.Cut(cell, ":")
			row += `<td class="num" data-label="` + name + `">` + text + `</td>`
		}
		require.Contains(t, body, row, query)
	}
	status, _, _ := b.get("/history?span=2h")
	require.Equal(t, http.StatusBadRequest, status)
}

// A type that was renamed has two lines: what was stored under the former name is counted under it, also when it is published after
// the renaming. The page says so, and shows which of them it is filtered by.
func TestTheHistoryOfARenamedType(t *testing.T) {
	now := catalogue.Document{Name: "shop", Topics: map[string]string{"domain": "shop-domain"}, Types: []catalogue.Type{{Name: "order_placed", Was: []string{"order_created"}, Topic: "domain", Aggregate: "order"}}}
	renamed, err := catalogue.Build(now)
	require.NoError(t, err)
	b := setup(t, func(c *ui.Config) { c.Catalogue = renamed })
	at := time.Now()
	h := &dispatch.History{DB: b.db.Pool, Now: func() time.Time { return at }, Observe: dispatch.Observers{}}
	for name, n := range map[string]int{"order_created": 2, "order_placed": 3} {
		for range n {
			row := dispatch.Claimed{EventType: name, CreatedAt: at, Since: at}
			h.Published("domain", 0, []dispatch.Attempt{{Row: &row, Outcome: dispatch.OutcomePublished}})
		}
	}
	h.Flush(t.Context())
	_, _, body := b.get("/history")
	require.Contains(t, body, "What was renamed begins anew")
	for name, out := range map[string]string{"order_created": "2", "order_placed": "3"} {
		require.Regexp(t, name+`</a></td><td data-label="Topic"><bdi>domain</bdi></td><td class="num" data-label="In">`+out+`</td><td class="num" data-label="Out">`+out+`<`, body)
		_, _, filtered := b.get("/history?type=" + name)
		require.Contains(t, filtered, "<option selected>"+name+"</option>")
		require.Contains(t, filtered, "out at most "+out)
	}
}

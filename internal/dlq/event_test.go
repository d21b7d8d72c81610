package dlq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// The events of a filter come in the order of their publication, each with its time: one that has been published again
// since it was chosen is left alone.
func TestPublishedEventsRememberTheirPublication(t *testing.T) {
	b := setup(t)
	var want []dlq.Target
	for i := range 3 {
		_, id := b.die(death{})
		at := base().Add(-time.Duration(i) * time.Hour)
		b.exec("UPDATE outbox_events SET dead_at = NULL, published_at = $2 WHERE id = $1::text::uuid", id, at)
		want = append([]dlq.Target{{ID: id, EventID: id, At: &at}}, want...)
	}
	b.die(death{}) // not published
	source, err := b.store.ScanEvents(outbox.Filter{Status: outbox.StatusPublished, Since: base().Add(-90 * time.Minute)}, outbox.OldestFirst, true)
	require.NoError(t, err)
	got, err := source.Next(b.ctx, 10)
	require.NoError(t, err)
	for i := range got {
		at := got[i].At.UTC()
		got[i].At = &at
	}
	require.Equal(t, want[1:], got)
	b.exec("UPDATE outbox_events SET published_at = now() WHERE id = $1::text::uuid", got[0].ID)
	res, _ := b.run(b.ctx, change{Action: dlq.Republish, Source: fixed(got)})
	require.Equal(t, map[string]int64{dlq.Changed: 1, dlq.Republished: 1}, res.Counts)
	_, err = b.store.ScanEvents(outbox.Filter{Status: "odd"}, outbox.OldestFirst, true)
	require.Error(t, err)
}

package outbox_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A CloudEvent has seven attributes more. Emitters keep room for them, in Go as in SQL: the publisher could not send
// what has no room, and a header must not stand in their place.
func TestHeadersLeaveRoomForACloudEvent(t *testing.T) {
	t.Parallel()
	pool := outboxtest.DB(t).Pool
	cat, err := catalogue.Load(fstest.MapFS{"c.yaml": {Data: []byte(`
outbox: 1
name: licenses
topics: {domain: licenses}
types:
  license_status_changed: {topic: domain, aggregate: license, schema: any, envelope: none, cloudevents: {source: //licenses}}
`)}}, "c.yaml")
	require.NoError(t, err)
	require.NoError(t, cat.Apply(t.Context(), pool))
	many := func(n int) map[string]string {
		headers := map[string]string{}
		for i := range n {
			headers[fmt.Sprint("h", i)] = "x"
		}
		return headers
	}
	most := wire.PubSubLimits().Attributes - wire.StandardAttributes - wire.CloudEventAttributes
	for name, tc := range map[string]struct {
		headers map[string]string
		key     string
		state   string
	}{
		"most":               {headers: many(most)},
		"too many":           {headers: many(most + 1), state: "OX006"},
		"too many and a key": {headers: many(most), key: "k", state: "OX006"},
		"of a CloudEvent":    {headers: map[string]string{"ce-subject": "x"}, state: "OX004"},
		"in capitals":        {headers: map[string]string{"Content-Type": "x"}, state: "OX004"},
		"an extension":       {headers: map[string]string{"ce-traceparent": "x"}},
	} {
		event := emit.Event{
			Type: "license_status_changed", AggregateID: "0192d3a0-aaaa-7bbb-8ccc-0000000000ef", Data: map[string]any{}, Headers: tc.headers, OrderingKey: tc.key,
		}
		inGo := emit.New(cat).Validate(event)
		_, inSQL := pool.Exec(t.Context(), `SELECT outbox_emit($1::text, NULL, $2::text, '{}', headers => $3::jsonb, ordering_key => nullif($4::text, ''))`,
			event.Type, event.AggregateID, tc.headers, tc.key)
		if tc.state == "" {
			require.NoError(t, inGo, name)
			require.NoError(t, inSQL, name)
			continue
		}
		require.ErrorIs(t, inGo, emit.ErrInvalid, name)
		var pg *pgconn.PgError
		require.ErrorAs(t, inSQL, &pg, name)
		require.Equal(t, []string{tc.state, "headers"}, []string{pg.Code, pg.ColumnName}, name)
	}
}

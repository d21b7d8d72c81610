package why_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/why"
)

// Either id leads to the dead letter and to the event, and what the event carries is there only when asked for.
func TestDetailsByEitherID(t *testing.T) {
	b := setup(t)
	guard := b.withRedis()
	aggregate := uuid.NewString()
	before, event, after := b.emit(aggregate, 1), b.emit(aggregate, 2), b.emit(aggregate, 3)
	letter := b.dieAgain(event, "max_attempts", "no route")
	_, err := guard("billing").CheckAndMarkProcessed(b.ctx, uuid.MustParse(event), consume.DefaultTTL)
	require.NoError(t, err)
	require.NoError(t, guard("billing").Announce(b.ctx))

	check := func(s why.Surroundings, payload bool) {
		t.Helper()
		require.Equal(t, []string{"emitted", "died of max_attempts after 10 attempts"}, whats(s.History))
		require.Equal(t, letter, s.History[1].ID)
		require.Equal(t, "no route", s.History[1].Detail)
		require.Equal(t, []string{before, after}, eventIDs(s.Neighbours))
		require.Empty(t, s.ConsumersError)
		require.Len(t, s.Consumers, 1)
		require.Equal(t, []string{"billing", event, "processed"}, []string{s.Consumers[0].Consumer, s.Consumers[0].EventID, s.Consumers[0].State})
		if !payload {
			require.Nil(t, s.Payload)
			require.Nil(t, s.Headers)
			return
		}
		require.JSONEq(t, `{"version": 1, "eventId": "`+event+`", "occurredAt": "2026-03-01T12:00:00Z", "data": {}}`, string(s.Payload))
		require.JSONEq(t, `{"traceparent": "00-1"}`, string(s.Headers))
	}
	for _, id := range []string{event, letter} {
		for _, payload := range []bool{false, true} {
			p := why.DetailParams{ID: id, Payload: payload}
			d, err := why.DeadLetter(b.ctx, b.outbox, p)
			require.NoError(t, err)
			require.Equal(t, []string{letter, event, "no route"}, []string{d.ID, d.EventID, d.ErrorMessage})
			require.Equal(t, event, d.Event.ID)
			check(d.Surroundings, payload)
			e, err := why.Event(b.ctx, b.outbox, p)
			require.NoError(t, err)
			require.Equal(t, []string{event, aggregate, outbox.StatusDead}, []string{e.ID, e.AggregateID, e.Status})
			check(e.Surroundings, payload)
		}
	}
}

func whats(steps []dlq.Step) (out []string) {
	for _, s := range steps {
		out = append(out, s.What)
	}
	return out
}

func eventIDs(events []outbox.Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// Cleanup removes the event before its dead letter; what is left is shown.
func TestDetailOfADeadLetterWithoutItsEvent(t *testing.T) {
	b := setup(t)
	letter, event := b.die("no route")
	b.exec("DELETE FROM outbox_events")
	d, err := why.DeadLetter(b.ctx, b.outbox, why.DetailParams{ID: event, Payload: true})
	require.NoError(t, err)
	require.Equal(t, letter, d.ID)
	require.Nil(t, d.Event)
	require.Equal(t, []string{"emitted", "died of max_attempts after 10 attempts"}, whats(d.History))
	require.NotEmpty(t, d.Payload)
	doc, err := json.Marshal(d)
	require.NoError(t, err)
	for _, part := range []string{`"event":null`, `"neighbours":[]`, `"consumers":[]`, `"consumersError":"redis.url is not set"`} {
		require.Contains(t, string(doc), part)
	}
	_, err = why.Event(b.ctx, b.outbox, why.DetailParams{ID: letter})
	requireKind(t, fault.NotFound, err)
	require.Contains(t, fault.HintOf(err), "outboxctl why "+event)
}

func TestDetailRefusals(t *testing.T) {
	b := setup(t)
	event := b.emit("", 0)
	for name, tc := range map[string]struct {
		params why.DetailParams
		kind   fault.Kind
	}{
		"no id":               {why.DetailParams{}, fault.Usage},
		"bad id":              {why.DetailParams{ID: "odd"}, fault.Usage},
		"bad consumer":        {why.DetailParams{ID: event, Consumers: []string{"a b"}}, fault.Usage},
		"unknown":             {why.DetailParams{ID: uuid.NewString()}, fault.NotFound},
		"an event that lives": {why.DetailParams{ID: event}, fault.NotFound},
	} {
		_, err := why.DeadLetter(b.ctx, b.outbox, tc.params)
		require.Error(t, err, name)
		requireKind(t, tc.kind, err)
		if name != "an event that lives" {
			_, err = why.Event(b.ctx, b.outbox, tc.params)
			requireKind(t, tc.kind, err)
		}
	}
}

func TestHistoryShowsBothDeaths(t *testing.T) {
	b := setup(t)
	first, event := b.die("no")
	b.act(dlq.Discard, first)
	b.act(dlq.Restore, first)
	b.act(dlq.Replay, first)
	second := b.dieAgain(event, "rejected_by_broker", "no")
	d, err := why.Event(b.ctx, b.outbox, why.DetailParams{ID: event})
	require.NoError(t, err)
	var story []string
	for _, s := range d.History {
		story = append(story, s.What+" "+s.Actor+s.ID)
	}
	require.Equal(t, []string{
		"emitted ", "died of max_attempts after 10 attempts " + first, "discarded tester", "restored tester", "replayed tester",
		"died of rejected_by_broker after 10 attempts " + second,
	}, story)
	require.Contains(t, b.why(event).Explanation, "It has died 2 times.")
	// Of several deaths the newest open one is meant.
	letter, err := why.DeadLetter(b.ctx, b.outbox, why.DetailParams{ID: event})
	require.NoError(t, err)
	require.Equal(t, second, letter.ID)
}

// Everything that only looks, in each of the driver's modes and whatever the session's defaults are.
func TestLooksWorkInEveryMode(t *testing.T) {
	b := setup(t)
	guard := b.withRedis()
	require.NoError(t, guard("billing").Announce(b.ctx))
	letter, event := b.die("no route")
	b.act(dlq.Discard, letter)
	b.exec("INSERT INTO inbox_events (consumer, event_id) VALUES ('search', $1::text::uuid)", event)
	waiting := b.emit("", 1)
	b.publisher(`{"topics": [{"topic": "domain", "state": "misconfigured"}]}`, "1 second")
	var want []any
	for _, mode := range modes() {
		box := *b.outbox
		box.DB = b.pool(func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = mode
			c.ConnConfig.RuntimeParams["TimeZone"] = "America/New_York"
		})
		got := looks(b.ctx, t, &box, letter, waiting, true)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "%s", mode)
	}
}

// A viewer may look at everything but what events carry.
func TestAViewerSeesEverythingButPayloads(t *testing.T) {
	b := setup(t)
	letter, _ := b.die("no route")
	waiting := b.emit("", 1)
	b.outbox.DB = b.pool(func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "SET ROLE outbox_viewer")
			return err
		}
	})
	looks(b.ctx, t, b.outbox, letter, waiting, false)
	_, err := why.DeadLetter(b.ctx, b.outbox, why.DetailParams{ID: letter, Payload: true})
	requireKind(t, fault.Precondition, err)
	require.ErrorContains(t, err, "permission denied")
	_, err = why.Event(b.ctx, b.outbox, why.DetailParams{ID: letter, Payload: true})
	requireKind(t, fault.Precondition, err)
}

// looks calls every use case that changes nothing and returns what does not depend on the time of the call.
func looks(ctx context.Context, t *testing.T, o *dlq.Outbox, letter, waiting string, payload bool) (seen []any) {
	t.Helper()
	d, err := why.DeadLetter(ctx, o, why.DetailParams{ID: letter, Payload: payload})
	require.NoError(t, err)
	e, err := why.Event(ctx, o, why.DetailParams{ID: letter, Payload: payload})
	require.NoError(t, err)
	seen = append(seen, asJSON(t, d), asJSON(t, e))
	for _, id := range []string{letter, waiting, uuid.NewString()} {
		r, err := why.Explain(ctx, o, why.Params{ID: id})
		require.NoError(t, err)
		seen = append(seen, r.State)
	}
	_, err = o.Audit(ctx, dlq.AuditParams{}, func(row dlq.AuditRow) error {
		seen = append(seen, asJSON(t, row))
		return nil
	})
	require.NoError(t, err)
	_, err = o.ListDeadLetters(ctx, outbox.ListParams{Filter: dlq.Filter{Types: []string{"order_canceled"}, ErrorLike: "no"}}, func(e dlq.Entry) error {
		seen = append(seen, asJSON(t, e))
		return nil
	})
	require.NoError(t, err)
	_, err = o.ListEvents(ctx, outbox.ListParams{Filter: outbox.Filter{Types: []string{"order_canceled"}}}, func(e outbox.Event) error {
		seen = append(seen, asJSON(t, e))
		return nil
	})
	require.NoError(t, err)
	groups, err := o.GroupDeadLetters(ctx, dlq.GroupParams{By: "type"})
	require.NoError(t, err)
	seen = append(seen, asJSON(t, groups))
	if payload {
		_, err = o.Export(ctx, dlq.ExportParams{IDs: []string{letter}}, func(e dlq.Export) error {
			seen = append(seen, asJSON(t, e))
			return nil
		})
		require.NoError(t, err)
	}
	return seen
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	doc, err := json.Marshal(value)
	require.NoError(t, err)
	return string(doc)
}

package idem

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// forgetBundle is an installation with a database and Redis, and one event that is in neither.
type forgetBundle struct {
	t      *testing.T
	outbox *Outbox
	event  uuid.UUID
}

func newForgetOutbox(t *testing.T) (*Outbox, *consume.Guard) {
	t.Helper()
	client := outboxtest.Redis(t).Client
	guard, err := consume.New(client, "billing", consume.Options{})
	require.NoError(t, err)
	return &Outbox{Outbox: outbox.Outbox{DB: outboxtest.DB(t).Pool}, Keeper: New(client, consume.DefaultTTL)}, guard
}

func (b *forgetBundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.outbox.DB.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

func (b *forgetBundle) state() consume.State {
	b.t.Helper()
	entry, err := b.outbox.Keeper.Lookup(b.t.Context(), "billing", b.event)
	require.NoError(b.t, err)
	return entry.State
}

// What Redis and the inbox know decides what is forgotten, what is refused, and what is recorded.
func TestForget(t *testing.T) {
	t.Parallel()
	box, guard := newForgetOutbox(t)
	for name, tc := range map[string]struct {
		redis   consume.State
		inInbox bool
		params  ForgetParams
		refused fault.Kind
		want    ForgetResult
	}{
		"processed":                        {redis: consume.StateProcessed, want: ForgetResult{Forgotten: true}},
		"processed, a dry run":             {redis: consume.StateProcessed, params: ForgetParams{DryRun: true}},
		"the inbox row stays":              {redis: consume.StateProcessed, inInbox: true, want: ForgetResult{Forgotten: true}},
		"the inbox row too":                {redis: consume.StateProcessed, inInbox: true, params: ForgetParams{Inbox: true}, want: ForgetResult{Forgotten: true, InboxRemoved: true}},
		"the inbox row too, a dry run":     {redis: consume.StateProcessed, inInbox: true, params: ForgetParams{Inbox: true, DryRun: true}},
		"only the inbox knows it":          {inInbox: true, refused: fault.NotFound},
		"only the inbox knows it, removed": {inInbox: true, params: ForgetParams{Inbox: true}, want: ForgetResult{InboxRemoved: true}},
		"nothing is known":                 {refused: fault.NotFound},
		"nothing is known, a dry run":      {params: ForgetParams{Inbox: true, DryRun: true}, refused: fault.NotFound},
		"being processed":                  {redis: consume.StateProcessing, refused: fault.Precondition},
		"being processed, a dry run":       {redis: consume.StateProcessing, params: ForgetParams{DryRun: true}, refused: fault.Precondition},
		"being processed, forced":          {redis: consume.StateProcessing, params: ForgetParams{Force: true}, want: ForgetResult{Forgotten: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &forgetBundle{t: t, outbox: box, event: uuid.Must(uuid.NewV7())}
			ctx := t.Context()
			switch tc.redis {
			case consume.StateProcessed:
				_, err := guard.CheckAndMarkProcessed(ctx, b.event, consume.DefaultTTL)
				require.NoError(t, err)
			case consume.StateProcessing:
				_, _, err := guard.Begin(ctx, b.event)
				require.NoError(t, err)
			default:
				tc.redis = consume.StateUnknown
			}
			if tc.inInbox {
				require.Equal(t, 1, b.count("WITH i AS (INSERT INTO inbox_events (consumer, event_id) VALUES ('billing', $1::text::uuid) RETURNING 1) SELECT count(*) FROM i", b.event.String()))
			}
			p := tc.params
			p.ID, p.Consumer, p.Actor, p.Note = b.event.String(), "billing", "tester", "TICKET-7"
			got, err := b.outbox.Forget(ctx, p)
			inbox := b.count("SELECT count(*) FROM inbox_events WHERE event_id = $1::text::uuid", p.ID)
			audit := b.count("SELECT count(*) FROM outbox_audit WHERE detail->'eventIds' = jsonb_build_array($1::text)", p.ID)
			if tc.refused != "" {
				kind, _ := fault.KindOf(err)
				require.Equal(t, tc.refused, kind, "%v", err)
				require.Equal(t, tc.redis, b.state())
				require.Zero(t, audit)
				return
			}
			require.NoError(t, err)
			require.Equal(t, p.DryRun, got.AuditID == 0)
			tc.want.EventID, tc.want.Consumer, tc.want.State = p.ID, p.Consumer, string(tc.redis)
			tc.want.DryRun, tc.want.InInbox, tc.want.AuditID = p.DryRun, tc.inInbox, got.AuditID
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.inInbox && !got.InboxRemoved, inbox == 1)
			if p.DryRun {
				require.Equal(t, tc.redis, b.state())
				require.Zero(t, audit)
				return
			}
			require.Equal(t, consume.StateUnknown, b.state())
			require.Equal(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE id = $1 AND action = 'consumer.forget' AND actor = 'tester' AND note = 'TICKET-7'
				AND detail->'eventIds' = jsonb_build_array($2::text) AND detail->>'state' = $3 AND (detail->>'forced')::boolean = $4`,
				got.AuditID, p.ID, string(tc.redis), p.Force))
		})
	}
}

func TestForgetParams(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	for name, tc := range map[string]struct {
		params ForgetParams
		says   string // empty: accepted
	}{
		"good":                    {ForgetParams{ID: id, Consumer: "billing", Note: "x"}, ""},
		"a dry run needs no note": {ForgetParams{ID: id, Consumer: "billing", DryRun: true}, ""},
		"no note":                 {ForgetParams{ID: id, Consumer: "billing"}, "--note"},
		"no consumer":             {ForgetParams{ID: id, Note: "x"}, "--consumer"},
		"neither":                 {ForgetParams{ID: id}, "--consumer)\ngive a note"},
		"bad consumer":            {ForgetParams{ID: id, Consumer: "a b", Note: "x"}, "consumer name"},
		"bad id":                  {ForgetParams{ID: "odd", Consumer: "billing", Note: "x"}, "is not an id"},
	} {
		err := tc.params.Check()
		if tc.says == "" {
			require.NoError(t, err, name)
			continue
		}
		kind, _ := fault.KindOf(err)
		require.Equal(t, fault.Usage, kind, name)
		require.ErrorContains(t, err, tc.says, name)
	}
}

// A key that changes between the look and the deletion stays, and the audit trail says so.
func TestForgetRecordsWhatItCouldNotDo(t *testing.T) {
	t.Parallel()
	box, guard := newForgetOutbox(t)
	b := &forgetBundle{t: t, outbox: box, event: uuid.Must(uuid.NewV7())}
	ctx := t.Context()
	_, err := guard.CheckAndMarkProcessed(ctx, b.event, consume.DefaultTTL)
	require.NoError(t, err)
	stale, err := b.outbox.Keeper.Lookup(ctx, "billing", b.event)
	require.NoError(t, err)
	require.NoError(t, guard.Delete(ctx, b.event))

	var result ForgetResult
	err = b.outbox.forget(ctx, ForgetParams{Consumer: "billing", Actor: "tester", Note: "x"}, stale, &result)
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Precondition, kind)
	require.False(t, result.Forgotten)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'consumer.forget' AND id = $1`, result.AuditID))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM outbox_audit WHERE action = 'consumer.forget_undone' AND (detail->>'auditId')::bigint = $1`, result.AuditID))
	require.Equal(t, 2, b.count(`SELECT count(*) FROM outbox_audit WHERE detail->'eventIds' = jsonb_build_array($1::text) AND detail->>'consumer' = 'billing'`, b.event.String()))
}

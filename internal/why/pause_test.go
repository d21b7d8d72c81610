package why_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/check"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/why"
)

func TestAPauseIsSeenAndEnds(t *testing.T) {
	b := setup(t)
	event := b.emit("", 0)
	topic := outbox.PauseParams{Kind: outbox.PauseTopic, Value: "domain", Actor: "ann", Note: "consumer is migrated"}
	require.NoError(t, b.outbox.CheckPause(t.Context(), &topic))
	r, err := b.outbox.Pause(b.ctx, topic)
	require.NoError(t, err)
	require.Equal(t, outbox.PauseResult{Kind: "topic", Value: "domain", Outcome: outbox.Paused, Events: 1, RunID: r.RunID}, r)

	told := b.why(event)
	require.Equal(t, why.Held, told.State)
	require.Contains(t, told.Explanation, "ann paused the topic domain")
	require.Equal(t, []string{"outboxctl resume --topic domain"}, told.Commands)
	verdict, err := check.Run(b.ctx, b.outbox.DB, b.outbox.Registry, check.Params{MaxAttempts: 10})
	require.NoError(t, err)
	require.Contains(t, verdict.Remarks[0], "topic domain is paused by ann for ")
	report, err := stats.Collect(b.ctx, b.outbox.DB, b.outbox.Registry, stats.Params{MaxAttempts: 10})
	require.NoError(t, err)
	require.Len(t, report.Pauses, 1)
	require.EqualValues(t, 1, report.Pauses[0].Events)

	topic.For = time.Hour
	r, err = b.outbox.Pause(b.ctx, topic)
	require.NoError(t, err)
	require.Equal(t, "extended", r.Outcome)
	require.NotNil(t, r.Until)

	// It ends by itself, and then there is nothing to lift.
	b.exec("UPDATE outbox_pauses SET until = now()")
	pauses, err := b.outbox.Pauses(b.ctx)
	require.NoError(t, err)
	require.Empty(t, pauses)
	require.NotEqual(t, why.Held, b.why(event).State)
	_, err = b.outbox.Resume(b.ctx, topic)
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Precondition, kind)

	for kind, value := range map[string]string{outbox.PauseType: "order_canceled", outbox.PauseNamespace: "default"} {
		p := outbox.PauseParams{Kind: kind, Value: value, Actor: "ann"}
		_, err := b.outbox.Pause(b.ctx, p)
		require.NoError(t, err)
		require.Equal(t, why.Held, b.why(event).State, kind)
		r, err := b.outbox.Resume(b.ctx, p)
		require.NoError(t, err)
		require.Equal(t, outbox.Resumed, r.Outcome)
	}
	var audited string
	require.NoError(t, b.db.Pool.QueryRow(b.ctx, "SELECT string_agg(action, ' ' ORDER BY id) FROM outbox_audit").Scan(&audited))
	require.Equal(t, "pause pause pause resume pause resume", audited)
}

func TestAPauseOfNothingIsRefused(t *testing.T) {
	b := setup(t)
	for _, p := range []outbox.PauseParams{
		{Kind: outbox.PauseTopic, Value: "domian"}, {Kind: outbox.PauseType, Value: "order_cancelled"}, {Kind: outbox.PauseTenant, Value: "acme"},
	} {
		kind, _ := fault.KindOf(b.outbox.CheckPause(t.Context(), &p))
		require.Equal(t, fault.Usage, kind, p.Value)
	}
	require.Equal(t, "did you mean order_canceled?", fault.HintOf(b.outbox.CheckPause(t.Context(), &outbox.PauseParams{Kind: outbox.PauseType, Value: "order_cancelled"})))
	require.Equal(t, "did you mean domain?", fault.HintOf(b.outbox.CheckPause(t.Context(), &outbox.PauseParams{Kind: outbox.PauseTopic, Value: "domian"})))
	p := outbox.PauseParams{Kind: outbox.PauseTenant, Value: "7F2C0B60-0000-4000-8000-000000000001"}
	require.NoError(t, b.outbox.CheckPause(t.Context(), &p))
	require.Equal(t, uuid.MustParse(p.Value).String(), p.Value)
}

// A namespace may be any text; the command that resumes it can be pasted into a shell.
func TestTheCommandThatResumesIsQuoted(t *testing.T) {
	b := setup(t)
	event := uuid.NewString()
	b.exec(`INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, namespace)
VALUES ($1::text::uuid, 'order_canceled', 'vendor_order', gen_random_uuid(), '{}', 'ann''s shop; reboot')`, event)
	_, err := b.outbox.Pause(b.ctx, outbox.PauseParams{Kind: outbox.PauseNamespace, Value: "ann's shop; reboot", Actor: "ann"})
	require.NoError(t, err)
	require.Equal(t, []string{`outboxctl resume --namespace 'ann'\''s shop; reboot'`}, b.why(event).Commands)
}

// A tenant is compared as text, so that another spelling of its id would pause nothing.
func TestATenantIsNamedByItsWholeID(t *testing.T) {
	b := setup(t)
	const id = "7f2c0b60-0000-4000-8000-00000000000a"
	p := outbox.PauseParams{Kind: outbox.PauseTenant, Value: strings.ToUpper(id)}
	require.NoError(t, b.outbox.CheckPause(b.ctx, &p))
	require.Equal(t, id, p.Value)
	p.Actor = "ann"
	_, err := b.outbox.Pause(b.ctx, p)
	require.NoError(t, err)
	p.Value = strings.ToUpper(id)
	require.NoError(t, b.outbox.CheckResume(b.ctx, &p))
	require.Equal(t, id, p.Value)
	for _, wrong := range []string{"x", "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), uuid.Nil.String(), id[:8]} {
		_, err := outbox.ParseTenant(wrong)
		requireKind(t, fault.Usage, err)
		_, err = outbox.ParseTenants([]string{id, wrong})
		requireKind(t, fault.Usage, err)
		requireKind(t, fault.Usage, b.outbox.CheckPause(b.ctx, &outbox.PauseParams{Kind: outbox.PauseTenant, Value: wrong}))
	}
}

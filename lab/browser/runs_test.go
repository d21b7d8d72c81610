package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	confirmCount = `form.confirm input[name="confirm.count"]`
	confirmNote  = `form.confirm textarea[name="note"]`
	// countInState counts the dead letters of journeys' own namespace in a state.
	countInState = `SELECT count(*) FROM outbox_dlq WHERE namespace = 'journey' AND state = $1`
)

// below puts a page below a path.
func below(change func(*ui.Config)) func(*ui.Config) {
	return func(c *ui.Config) { change(c); c.BasePath = "/ops/outbox" }
}

// as lets another user change things.
func as(name string) func(*ui.Config) {
	return func(c *ui.Config) {
		withChanges(c)
		c.Identify = func(*http.Request) (ui.Identity, error) {
			return ui.Identity{Name: name, Role: ui.Operator, Auth: "test"}, nil
		}
	}
}

// broker takes events of the namespace of journeys, or lets them die while it is broken.
type broker struct{ broken atomic.Bool }

// startBroker runs a real dispatcher on the site's database.
func startBroker(t *testing.T, s *site) *broker {
	t.Helper()
	k := &broker{}
	k.broken.Store(true)
	d, err := dispatch.New(t.Context(), dispatch.Config{
		Claims: outboxtest.Pool(t, s.db.URL), Settles: outboxtest.Pool(t, s.db.URL), Namespace: "journey", Tuning: dispatch.Tuning{MaxAttempts: 1, PollInterval: tick},
		Publisher: dispatch.Each(func(context.Context, string, dispatch.Message) error {
			if k.broken.Load() {
				return errors.New("the search index is read-only")
			}
			return nil
		}, 2),
	})
	require.NoError(t, err)
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(running) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		d.Close()
	})
	return k
}

// emit emits events of the namespace of journeys.
func (s *site) emit(n int) {
	s.t.Helper()
	s.exec(`SELECT outbox_emit('media_uploaded', NULL, gen_random_uuid()::text, '{}', namespace => 'journey') FROM generate_series(1, $1::int)`, n)
}

// planAll makes a plan of everything that the list shows.
func (b *tab) planAll(list, verb string) {
	b.t.Helper()
	b.open(list)
	b.follow(`.actions form:not(#pick) button[value="`+verb+`"]`, confirming)
}

// confirm types a count and confirms the plan that is shown.
func (b *tab) confirm(count string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(confirmCount), count), chromedp.SetValue(chromedp.CSS(confirmNote), "INC-4411"), chromedp.Click(chromedp.CSS(confirming)))
}

// What is replayed before the cause is gone dies again: the run goes in steps, so it costs one event, stops by itself and says
// why. Once the cause is gone it is resumed to the end.
func TestARunStopsByItselfAndIsResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t, below(withChanges))
	k := startBroker(t, s)
	s.emit(9)
	require.Eventually(t, func() bool { return s.number(countInState, "open") == 9 }, patience, tick)

	b := newTab(t, s.url)
	b.expect("answered 409", "status of 409")
	b.planAll("/dead-letters?namespace=journey", "replay")
	b.seeText("Replay 9 dead letters?")
	plan := js[string](b, "location.pathname")
	b.confirm("8")
	b.seeText("Nothing was changed")
	require.Equal(t, 9, s.number(countInState, "open"))
	b.do(chromedp.Click(chromedp.CSS(".empty-state a.button")))
	b.see(fmt.Sprintf("location.pathname === %q", plan))
	require.True(t, js[bool](b, `document.querySelector("input[name=ramp]").checked`), "a set that was not looked at goes in steps")
	b.confirm("9")
	b.see(`document.querySelector("h1 .s-stopped")`)
	b.seeText("1 of 1 replayed events died again")
	require.Equal(t, 1, s.number(countInState, "replayed"), "it cost one event")

	k.broken.Store(false)
	b.do(chromedp.Click(chromedp.CSS(`form.confirm button.primary`)))
	b.see(`document.querySelector("h1 .s-done")`)
	b.seeText("9 of 9 done")
	require.Equal(t, 9, s.number(countInState, "replayed"))
	require.Equal(t, 1, s.number(countInState, "open"), "the one that died again")
	require.Eventually(t, func() bool {
		return s.number(`SELECT count(*) FROM outbox_events WHERE namespace = 'journey' AND published_at IS NOT NULL`) == 8
	}, patience, tick)
	require.Equal(t, 2, s.number(`SELECT count(DISTINCT detail ->> 'requestId') FROM outbox_audit WHERE detail ->> 'runId' = $1`, plan[strings.LastIndex(plan, "/")+1:]), "begun once, resumed once")
}

// Two operators confirm one plan at the same time, and then plans that overlap: each row is changed once, and both are told.
func TestTwoOperatorsOnTheSameRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, withChanges)
	ann, ben := newTab(t, s.url), newTab(t, serve(t, s.db, as("ben@example.com")).url)
	ben.expect("answered 409", "status of 409")
	ann.planAll("/dead-letters?reason=message_too_large", "discard")
	plan := js[string](ann, "location.pathname")
	ben.planAll("/dead-letters?reason=message_too_large&topic=domain", "discard")
	overlapping := js[string](ben, "location.pathname")
	ben.open(plan)
	ben.seeText("Planned by ann@example.com")
	ann.confirm("42")
	ben.confirm("42")
	for _, b := range []*tab{ann, ben} {
		b.see(`document.querySelector("h1 .s-done") && location.pathname.includes("/plans/")`)
		b.seeText("42 of 42 done")
	}
	const discards = `SELECT coalesce(sum(affected), 0) FROM outbox_audit WHERE action = 'dlq.discard'`
	require.Equal(t, 42, s.number(discards), "one run")

	ben.open(overlapping)
	ben.confirm("42")
	ben.see(`document.querySelector("h1 .s-done")`)
	ben.seeText("Not changed")
	require.Equal(t, 42, s.number(discards), "each row once")
	require.Equal(t, 42, s.number(lettersIn, "message_too_large", "discarded"))
}

// The page that runs a plan ends in the middle of it. Another copy of the page, below another path, says so and resumes it.
func TestAnotherCopyOfThePageResumes(t *testing.T) {
	t.Parallel()
	other := newSite(t, below(as("ben@example.com")))
	s := serve(t, other.db, withChanges)
	ann, ben := newTab(t, s.url), newTab(t, other.url)
	ann.planAll("/dead-letters?fingerprint=max_attempts%3Abilling-deadline", "replay")
	total := js[string](ann, `document.querySelector("input[name=\"confirm.count\"]").placeholder`)
	ann.do(chromedp.Click(chromedp.CSS("input[name=ramp]")), chromedp.SetValue(chromedp.CSS("input[name=rate]"), "2"))
	run := js[string](ann, "location.pathname")
	ann.confirm(total)
	ann.see(`document.querySelector("h1 .s-running")`)
	ben.open(run)
	ben.seeText("Stop after the rows it is at")
	const done = `SELECT coalesce(sum(affected), 0) FROM outbox_audit WHERE detail ->> 'runId' = $1`
	id := strings.TrimPrefix(run, "/plans/")
	require.Eventually(t, func() bool { return s.number(done, id) > 0 }, patience, tick)
	ann.open("/settings") // it asks for nothing any more
	s.close()
	ben.see(`document.querySelector("h1 .s-interrupted")`)
	require.Less(t, s.number(done, id), s.number(`SELECT total FROM outbox_plans WHERE id = $1::text::uuid`, id))
	ben.do(chromedp.Click(chromedp.CSS("input[name=ramp]")), chromedp.Click(chromedp.CSS("form.confirm button.primary")))
	ben.see(`document.querySelector("h1 .s-done")`)
	ben.seeText(total + " of " + total + " done")
	require.Equal(t, total, fmt.Sprint(s.number(done, id)), "each row once")
	require.Equal(t, 2, s.number(`SELECT count(DISTINCT actor) FROM outbox_audit WHERE detail ->> 'runId' = $1`, id), "the audit has both")
}

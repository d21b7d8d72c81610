package why_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/why"
)

// expiring makes the outbox one in which order_canceled is of no use an hour after it was emitted.
func (b *bundle) expiring() {
	b.t.Helper()
	types, err := catalogue.Build(catalogue.Document{Name: "orders", Namespace: "*", Topics: map[string]string{"domain": "domain"}, Types: []catalogue.Type{{
		Name: "order_canceled", Topic: "domain", Aggregate: "vendor_order", Schema: catalogue.Any, Policy: wire.Policy{ExpiresAfter: time.Hour},
	}}})
	require.NoError(b.t, err)
	b.outbox.Registry = &registry.Registry{Catalogue: types, Source: "program"}
}

// emitted sets how long ago an event was emitted and when it is due from now, at its time or at its next attempt.
func (b *bundle) emitted(id, ago string, scheduled bool, due string) {
	b.t.Helper()
	b.exec("ALTER TABLE outbox_events DISABLE TRIGGER USER")
	b.exec(`UPDATE outbox_events SET created_at = now() - $2::text::interval, next_attempt_at = now() + $4::text::interval,
	        deliver_at = CASE WHEN $3 THEN now() + $4::text::interval END WHERE id = $1::text::uuid`, id, ago, scheduled, due)
	b.exec("ALTER TABLE outbox_events ENABLE TRIGGER USER")
}

func (b *bundle) pause(kind, value string, length time.Duration) {
	b.t.Helper()
	_, err := b.outbox.Pause(b.ctx, outbox.PauseParams{Kind: kind, Value: value, For: length, Actor: "ann"})
	require.NoError(b.t, err)
}

// tells requires a state, and what is and is not said with it; a text with a leading ! is not.
func (b *bundle) tells(id, state string, says ...string) {
	b.t.Helper()
	told := b.why(id)
	require.Equal(b.t, state, told.State, told.Explanation)
	text := told.Explanation
	for _, c := range told.Commands {
		text += "\n" + c
	}
	for _, s := range says {
		if s[0] == '!' {
			require.NotContains(b.t, text, s[1:])
		} else {
			require.Contains(b.t, text, s)
		}
	}
}

// A head of which nothing is left to send can only be discarded.
func TestWhatWaitsBehindAnErasedHeadIsNotToldToReplayIt(t *testing.T) {
	b := setup(t)
	ids := b.keyed(2)
	letter := b.dieAgain(ids[0], "max_attempts", "no")
	b.tells(ids[1], why.Parked, "outboxctl dlq replay "+letter, "is published after that one is replayed or corrected, or when it is discarded")
	_, _, err := b.change(dlq.ChangeParams{Action: dlq.Erase, IDs: ids[:1], Actor: "ann"})
	require.NoError(t, err)
	b.tells(ids[1], why.Parked, "!replay", "!edit", "outboxctl dlq discard "+letter, "is published when that one is discarded", "erased")
}

// What holds back the head of an ordering key holds back all of it.
func TestWhatWaitsBehindAPausedHeadNamesThePause(t *testing.T) {
	b := setup(t)
	ids := b.keyed(2)
	b.pause(outbox.PauseType, "order_canceled", 0)
	b.exec("ALTER TABLE outbox_events DISABLE TRIGGER USER")
	b.exec("UPDATE outbox_events SET event_type = 'order_created' WHERE id = $1::text::uuid", ids[1])
	b.exec("ALTER TABLE outbox_events ENABLE TRIGGER USER")
	for range 2 {
		b.tells(ids[1], why.Held, "1 ahead; the first, "+ids[0]+", waits because ann paused the type order_canceled", "outboxctl resume --type order_canceled",
			"!No publisher")
		b.publisher("{}", "1 second")
	}
	b.pause(outbox.PauseType, "order_created", 0)
	b.tells(ids[1], why.Held, "outboxctl resume --type order_canceled", "outboxctl resume --type order_created")
	_, err := b.outbox.Resume(b.ctx, outbox.PauseParams{Kind: outbox.PauseType, Value: "order_canceled", Actor: "ann"})
	require.NoError(t, err)
	b.tells(ids[1], why.Held, "the first, "+ids[0]+", waits for its turn", "ann paused the type order_created", "outboxctl resume --type order_created")
}

// All that holds an event back is named: it is not published before the last of it ends.
func TestEveryPauseIsNamed(t *testing.T) {
	b := setup(t)
	event := b.emit("", 0)
	b.pause(outbox.PauseTopic, "domain", time.Hour)
	b.pause(outbox.PauseType, "order_canceled", 0)
	b.tells(event, why.Held, "ann paused the topic domain", "ann paused the type order_canceled", "is published when both end",
		"outboxctl resume --topic domain", "outboxctl resume --type order_canceled")
}

// What is past its expires_after dies when a publisher looks at it, whatever it waits for until then.
func TestWhyForeseesThatAnEventExpires(t *testing.T) {
	b := setup(t)
	b.expiring()
	event := b.emit("", 0)
	const dies, mayDie = "dies with the reason expired", "if that is before"
	for _, publishers := range []string{why.NoPublisher, why.Waiting} {
		b.emitted(event, "2 hours", false, "-1 hour")
		b.tells(event, publishers, dies, "was to be published within 1h", "!waits for its turn", "can be replayed then")
		b.emitted(event, "10 minutes", false, "-10 minutes")
		b.tells(event, publishers, "!"+dies, "waits for its turn")
		b.emitted(event, "50 minutes", false, "1 hour")
		b.tells(event, why.BackingOff, dies, "outboxctl event retry")
		b.emitted(event, "2 hours", false, "1 hour")
		b.tells(event, why.BackingOff, dies, "!event retry", "!is tried again")
		b.emitted(event, "2 hours", true, "10 minutes")
		b.tells(event, why.Scheduled, "!"+dies)
		b.emitted(event, "2 hours", true, "-10 minutes")
		b.tells(event, publishers, "!"+dies)
		b.publisher("{}", "1 second")
	}
	b.exec(`UPDATE outbox_publishers SET state = '{"topics": [{"topic": "domain", "state": "unreachable"}]}'`)
	b.emitted(event, "2 hours", false, "-1 hour")
	b.tells(event, why.Paused, dies, "!is published")
	b.emitted(event, "10 minutes", false, "-1 minute")
	b.tells(event, why.Paused, "is published when the topic works again, "+mayDie)

	b.pause(outbox.PauseTopic, "domain", 0)
	b.tells(event, why.Held, "is published when the pause ends, "+mayDie)
	b.emitted(event, "2 hours", false, "-1 hour")
	b.tells(event, why.Held, dies+" when the pause ends", "!is published", "outboxctl resume --topic domain")
	b.pause(outbox.PauseTopic, "domain", 30*time.Minute)
	b.emitted(event, "10 minutes", false, "-1 minute")
	b.tells(event, why.Held, "is published when the pause ends.", "!expired")
	b.emitted(event, "40 minutes", false, "-1 minute")
	b.tells(event, why.Held, "is published when the pause ends, "+mayDie)
	b.emitted(event, "2 hours", true, "-10 minutes")
	b.tells(event, why.Held, "!expired")

	ids := b.keyed(2)
	b.emitted(ids[1], "2 hours", false, "-1 hour")
	_, err := b.outbox.Resume(b.ctx, outbox.PauseParams{Kind: outbox.PauseTopic, Value: "domain", Actor: "ann"})
	require.NoError(t, err)
	b.dieAgain(ids[0], "max_attempts", "no")
	b.tells(ids[1], why.Parked, dies+" after that one is replayed")
}

// A pause and a time are both waited for.
func TestAPausedEventKeepsItsTime(t *testing.T) {
	b := setup(t)
	event := b.emit("", 0)
	b.emitted(event, "1 hour", true, "2 hours 1 minute")
	b.pause(outbox.PauseTopic, "domain", 0)
	b.tells(event, why.Held, "It is scheduled for 2 hours from now", "ann paused the topic domain", "is published when the pause ends, and not before its time",
		"outboxctl resume --topic domain", "outboxctl event retry "+event)
	b.pause(outbox.PauseTopic, "domain", time.Hour)
	b.tells(event, why.Scheduled, "is scheduled", "2 hours from now", "ann paused the topic domain", "outboxctl event retry "+event)
	b.pause(outbox.PauseTopic, "domain", 3*time.Hour)
	b.tells(event, why.Held, "It is scheduled for 2 hours from now", "when the pause ends")
	b.emitted(event, "1 hour", false, "2 hours 1 minute")
	b.exec("UPDATE outbox_events SET attempt_count = 10, last_error = 'no'")
	b.tells(event, why.Held, "It has no attempts left", "!is published", "!event retry")
	b.exec("UPDATE outbox_events SET attempt_count = 3")
	b.pause(outbox.PauseTopic, "domain", time.Hour)
	b.tells(event, why.Held, "It has failed 3 times of 10 and is not tried again before 2 hours from now", "outboxctl event retry "+event)
}

// Publishers that were told to take something else take it as little as those that do not know its type.
func TestWhyKnowsWhatPublishersWereToldToTake(t *testing.T) {
	b := setup(t)
	b.speak()
	const tenant = "7f2c0b60-0000-4000-8000-00000000000a"
	ours, shop, renamed := b.stored("default", "order_created"), b.stored("shop", "order_created"), b.stored("default", "order_canceled")
	b.exec("ALTER TABLE outbox_events DISABLE TRIGGER USER")
	b.exec("UPDATE outbox_events SET tenant_id = $1::text::uuid WHERE id = $2::text::uuid", tenant, ours)
	told := func(takes string) {
		b.exec("DELETE FROM outbox_publishers")
		b.publisher(`{"takes": {"namespace": "elsewhere"}}`, "2 hours")
		b.publisher(`{"takes": `+takes+`}`, "1 second")
	}
	check := func(takes string, taken ...string) {
		t.Helper()
		told(takes)
		for _, id := range []string{ours, shop, renamed} {
			state := why.Stranded
			if slices.Contains(taken, id) {
				state = why.Waiting
			}
			b.tells(id, state)
		}
	}
	check(`{}`, ours, shop, renamed)
	check(`{"namespace": "default"}`, ours, renamed)
	b.tells(shop, why.Stranded, "waits because no running publisher takes it: worker-7 (process 4242) takes namespace default.", "!catalogue",
		"is published when a publisher runs that takes it", "outboxctl publish --namespace shop")
	check(`{"eventTypes": ["order_expired"]}`, renamed)
	check(`{"tenantId": "`+strings.ToUpper(tenant)+`"}`, ours)
	b.tells(shop, why.Stranded, "takes tenant")
	check(`{"namespace": "shop", "eventTypes": ["order_created"]}`, shop)

	// What operators see of the whole says the same.
	told(`{"tenantId": "` + tenant + `"}`)
	stranded := func() (all []string) {
		r, err := stats.Collect(b.ctx, b.outbox.DB, b.outbox.Registry, stats.Params{MaxAttempts: 10})
		require.NoError(t, err)
		for _, s := range r.Stranded {
			all = append(all, s.String())
		}
		return all
	}
	require.Equal(t, []string{"no publisher takes order_canceled: 1 event left waiting",
		"no publisher takes order_created of namespace shop: 1 event left waiting"}, stranded())
	b.stored("default", "order_created")
	require.Len(t, stranded(), 3, "of another tenant")
	b.publisher(`{"catalogue": {"unknown": {"*": ["order_created"]}}}`, "1 second")
	b.tells(shop, why.Stranded, "worker-7 (process 4242) does not know its type as it is recorded", "outboxctl publish --namespace shop")
	b.tells(renamed, why.Waiting)
	require.Len(t, stranded(), 2)
	b.publisher("{}", "1 second")
	require.Empty(t, stranded())
}

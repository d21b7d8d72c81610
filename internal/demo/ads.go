package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/builtin"
)

type ad struct {
	id, store uuid.UUID
	next      int // index into adLife
}

// adLife is what happens to an ad after its creation.
func adLife() []string {
	return []string{builtin.TypeAdActivated, builtin.TypeAdUpdated, builtin.TypeAdPaused,
		builtin.TypeAdExpired}
}

func (s *shop) createAd() []emit.Event {
	if len(s.ads) >= openAds {
		return s.changeAd()
	}
	a := &ad{id: newID(s.random), store: s.store()}
	s.ads = append(s.ads, a)
	return []emit.Event{s.adEvent(builtin.TypeAdCreated, a, nil)}
}

// anyAd returns a living ad, after its creation when there is none.
func (s *shop) anyAd() (a *ad, before []emit.Event) {
	if len(s.ads) == 0 {
		before = s.createAd()
	}
	return s.ads[s.random.IntN(len(s.ads))], before
}

func (s *shop) changeAd() []emit.Event {
	a, events := s.anyAd()
	happening := adLife()[a.next]
	var changes json.RawMessage
	if happening == builtin.TypeAdUpdated {
		changes = json.RawMessage(fmt.Sprintf(`{"dailyBudgetCents":%d}`, 100*(1+s.random.IntN(50))))
	}
	if a.next++; a.next == len(adLife()) {
		s.ads = slices.DeleteFunc(s.ads, func(other *ad) bool { return other == a })
	}
	return append(events, s.adEvent(happening, a, changes))
}

func (s *shop) adEvent(eventType string, a *ad, changes json.RawMessage) emit.Event {
	return s.event(eventType, a.id, a.store, builtin.AdChanged{AdID: a.id, StoreID: a.store,
		At: s.now().UTC(), Changes: changes})
}

func (s *shop) rollup() []emit.Event {
	a, events := s.anyAd()
	impressions := 100 + s.random.Int64N(10_000)
	clicks := s.random.Int64N(impressions / 10)
	rollup := s.event(builtin.TypeAdDailyRollupReady, a.id, a.store, builtin.AdDailyRollupReady{
		AdID: a.id, Date: s.now().UTC().Add(-24 * time.Hour).Format(time.DateOnly),
		Impressions: impressions, Clicks: clicks, SpendCents: clicks * 12,
	})
	return append(events, rollup)
}

package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
)

const (
	storeCount = 8
	// openOrders and openAds bound what is under way; beyond that, something has to end before
	// anything begins.
	openOrders = 200
	openAds    = 50
	// longestScene is the largest number of events one scene has.
	longestScene = 8
)

// shop is a small market place that goes on living. Each scene is what one request of an
// application would commit.
type shop struct {
	random *rand.Rand
	now    func() time.Time
	stores []uuid.UUID
	orders []*order
	ads    []*ad
	played int
}

type order struct {
	id, group, vendor, buyer, lineItem uuid.UUID
	state                              int
	cents                              int64
	cash                               bool
}

// orderStates is an order's way when nothing comes in between.
func orderStates() []string {
	return []string{"created", "accepted", "packed", "shipped", "delivered"}
}

func newShop(random *rand.Rand, now func() time.Time) *shop {
	s := &shop{random: random, now: now}
	for range storeCount {
		s.stores = append(s.stores, newID(random))
	}
	return s
}

// newID makes a random id from the seed; event ids come from the emitter.
func newID(random *rand.Rand) uuid.UUID {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(random.UintN(256))
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// overture makes sure that even a short run shows every event type; afterwards chance decides.
func (s *shop) overture() []func() []emit.Event {
	return []func() []emit.Event{
		s.checkout, s.license, s.createAd, s.checkout, s.upload, s.advance, s.changeAd, s.cancel, s.expire, s.checkout,
		s.deliverForCash, s.changeAd, s.deliverByCard, s.changeAd, s.rollup, s.changeAd,
	}
}

func (s *shop) scene() []emit.Event {
	opening := s.overture()
	s.played++
	if s.played <= len(opening) {
		return opening[s.played-1]()
	}
	switch chance := s.random.IntN(100); {
	case len(s.orders) >= openOrders, chance < 40:
		return s.advance()
	case chance < 60:
		return s.checkout()
	case chance < 64:
		return s.cancel()
	case chance < 67:
		return s.expire()
	case chance < 77:
		return s.license()
	case chance < 84:
		return s.upload()
	case chance < 88:
		return s.createAd()
	case chance < 96:
		return s.changeAd()
	default:
		return s.rollup()
	}
}

// event fills in what all events have in common.
func (s *shop) event(eventType string, aggregate, store uuid.UUID, data any) emit.Event {
	return emit.Event{
		Type: eventType, AggregateID: aggregate.String(), Data: data, TenantID: store,
		Actor: &emit.Actor{UserID: newID(s.random).String(), StoreID: store.String(),
			Role: s.pick("owner", "manager", "agent")},
		Headers: map[string]string{"traceparent": fmt.Sprintf("00-%016x%016x-%016x-01",
			s.random.Uint64()|1, s.random.Uint64(), s.random.Uint64()|1)},
	}
}

func (s *shop) pick(words ...string) string { return words[s.random.IntN(len(words))] }

func (s *shop) store() uuid.UUID { return s.stores[s.random.IntN(len(s.stores))] }

func (s *shop) license() []emit.Event {
	id, store := newID(s.random), s.store()
	change := packfinderz.LicenseStatusChanged{LicenseID: id, StoreID: store,
		Status: packfinderz.LicensePending}
	events := []emit.Event{s.event(packfinderz.TypeLicenseStatusChanged, id, store, change)}
	change.Status = packfinderz.LicenseVerified
	if s.random.IntN(3) == 0 {
		change.Status, change.Reason = packfinderz.LicenseRejected, s.pick("the picture is not readable",
			"the license has expired", "the names differ")
	}
	return append(events, s.event(packfinderz.TypeLicenseStatusChanged, id, store, change))
}

func (s *shop) upload() []emit.Event {
	id, store, size := newID(s.random), s.store(), s.random.Int64N(4<<20)
	return []emit.Event{s.event(packfinderz.TypeMediaUploaded, id, store, packfinderz.MediaUploaded{
		MediaID: id, StoreID: store, Kind: s.pick("photo", "license_scan", "menu"), SizeBytes: &size,
	})}
}

type ad struct {
	id, store uuid.UUID
	next      int // index into adLife
}

// adLife is what happens to an ad after its creation.
func adLife() []string {
	return []string{packfinderz.TypeAdActivated, packfinderz.TypeAdUpdated, packfinderz.TypeAdPaused,
		packfinderz.TypeAdExpired}
}

func (s *shop) createAd() []emit.Event {
	if len(s.ads) >= openAds {
		return s.changeAd()
	}
	a := &ad{id: newID(s.random), store: s.store()}
	s.ads = append(s.ads, a)
	return []emit.Event{s.adEvent(packfinderz.TypeAdCreated, a, nil)}
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
	if happening == packfinderz.TypeAdUpdated {
		changes = json.RawMessage(fmt.Sprintf(`{"dailyBudgetCents":%d}`, 100*(1+s.random.IntN(50))))
	}
	if a.next++; a.next == len(adLife()) {
		s.ads = slices.DeleteFunc(s.ads, func(other *ad) bool { return other == a })
	}
	return append(events, s.adEvent(happening, a, changes))
}

func (s *shop) adEvent(eventType string, a *ad, changes json.RawMessage) emit.Event {
	return s.event(eventType, a.id, a.store, packfinderz.AdChanged{AdID: a.id, StoreID: a.store,
		At: s.now().UTC(), Changes: changes})
}

func (s *shop) rollup() []emit.Event {
	a, events := s.anyAd()
	impressions := 100 + s.random.Int64N(10_000)
	clicks := s.random.Int64N(impressions / 10)
	rollup := s.event(packfinderz.TypeAdDailyRollupReady, a.id, a.store, packfinderz.AdDailyRollupReady{
		AdID: a.id, Date: s.now().UTC().Add(-24 * time.Hour).Format(time.DateOnly),
		Impressions: impressions, Clicks: clicks, SpendCents: clicks * 12,
	})
	return append(events, rollup)
}

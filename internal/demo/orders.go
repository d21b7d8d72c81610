package demo

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
)

func (s *shop) checkout() []emit.Event {
	group, buyer := newID(s.random), s.store()
	created := packfinderz.OrderCreated{CheckoutGroupID: group}
	var notices []emit.Event
	for range 1 + s.random.IntN(3) {
		o := &order{
			id: newID(s.random), group: group, vendor: s.store(), buyer: buyer, lineItem: newID(s.random),
			cents: 500 + s.random.Int64N(20_000), cash: s.random.IntN(2) == 0,
		}
		s.orders = append(s.orders, o)
		created.VendorOrderIDs = append(created.VendorOrderIDs, o.id)
		notices = append(notices, s.notice(o, o.vendor, "new_order"))
	}
	return append([]emit.Event{s.event(packfinderz.TypeOrderCreated, group, buyer, created)}, notices...)
}

func (s *shop) notice(o *order, recipient uuid.UUID, kind string) emit.Event {
	return s.event(packfinderz.TypeNotificationRequested, newID(s.random), recipient,
		packfinderz.NotificationRequested{OrderID: o.id, RecipientStoreID: recipient, Type: kind})
}

// any returns an open order, after a checkout when there is none.
func (s *shop) any() (o *order, before []emit.Event) {
	if len(s.orders) == 0 {
		before = s.checkout()
	}
	return s.orders[s.random.IntN(len(s.orders))], before
}

func (s *shop) close(o *order) {
	s.orders = slices.DeleteFunc(s.orders, func(other *order) bool { return other == o })
}

// advance moves an order one step; the last step is followed by the money.
func (s *shop) advance() []emit.Event {
	o, events := s.any()
	return append(events, s.step(o)...)
}

func (s *shop) deliverForCash() []emit.Event { return s.deliver(true) }
func (s *shop) deliverByCard() []emit.Event  { return s.deliver(false) }

// deliver takes an order from where it is straight to its last step.
func (s *shop) deliver(cash bool) []emit.Event {
	o, events := s.any()
	o.state, o.cash = len(orderStates())-2, cash
	return append(events, s.step(o)...)
}

func (s *shop) step(o *order) []emit.Event {
	from, to := orderStates()[o.state], orderStates()[o.state+1]
	o.state++
	events := []emit.Event{
		s.event(packfinderz.TypeOrderStateChanged, o.id, o.vendor,
			packfinderz.OrderStateChanged{OrderID: o.id, CheckoutGroupID: o.group, From: from, To: to}),
		s.event(packfinderz.TypeLineItemStateChanged, o.id, o.vendor,
			packfinderz.LineItemStateChanged{OrderID: o.id, LineItemID: o.lineItem, From: from, To: to}),
	}
	if o.state < len(orderStates())-1 {
		return events
	}
	s.close(o)
	return append(events, s.settle(o)...)
}

func (s *shop) settle(o *order) []emit.Event {
	now, entry := s.now().UTC(), newID(s.random)
	var paid emit.Event
	if o.cash {
		paid = s.event(packfinderz.TypeCashCollected, o.id, o.vendor, packfinderz.CashCollected{
			OrderID: o.id, BuyerStoreID: o.buyer, VendorStoreID: o.vendor, AmountCents: o.cents, CashCollectedAt: now,
		})
	} else {
		intent := "pi_" + strings.ReplaceAll(entry.String(), "-", "")[:24]
		paid = s.event(packfinderz.TypePaymentSettled, entry, o.vendor, packfinderz.PaymentSettled{
			OrderID: o.id, PaymentIntentID: intent, AmountCents: o.cents, SettledAt: now,
		})
		// A payment provider repeats itself; the key makes a second call a no-op.
		paid.DedupeKey = o.vendor.String() + "/" + intent
	}
	payout := s.event(packfinderz.TypeVendorPayoutRecorded, newID(s.random), o.vendor, packfinderz.VendorPayoutRecorded{
		OrderID: o.id, VendorStoreID: o.vendor, AmountCents: o.cents * 9 / 10, PaidAt: now,
	})
	return []emit.Event{paid, payout}
}

func (s *shop) cancel() []emit.Event {
	o, events := s.any()
	s.close(o)
	return append(events,
		s.event(packfinderz.TypeOrderCanceled, o.id, o.buyer, packfinderz.OrderCanceled{
			OrderID: o.id, CheckoutGroupID: o.group, CanceledAt: s.now().UTC(), Reason: s.pick("changed my mind", "ordered twice", "too slow"),
		}),
		s.release(o), s.notice(o, o.vendor, "order_canceled"))
}

func (s *shop) expire() []emit.Event {
	o, events := s.any()
	s.close(o)
	days := int64(7)
	return append(events,
		s.event(packfinderz.TypeOrderExpired, o.id, o.vendor, packfinderz.OrderExpired{
			OrderID: o.id, CheckoutGroupID: o.group, ExpiredAt: s.now().UTC(), TTLDays: &days,
		}),
		s.release(o))
}

func (s *shop) release(o *order) emit.Event {
	quantity := 1 + s.random.Int64N(12)
	return s.event(packfinderz.TypeReservationReleased, o.id, o.vendor,
		packfinderz.ReservationReleased{OrderID: o.id, LineItemID: o.lineItem, Quantity: &quantity})
}

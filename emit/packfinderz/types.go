package packfinderz

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Event types: the values of the database enum event_type_enum.
const (
	TypeOrderCreated          = "order_created"
	TypeOrderStateChanged     = "order_state_changed"
	TypeLineItemStateChanged  = "line_item_state_changed"
	TypeLicenseStatusChanged  = "license_status_changed"
	TypeMediaUploaded         = "media_uploaded"
	TypePaymentSettled        = "payment_settled"
	TypeCashCollected         = "cash_collected"
	TypeVendorPayoutRecorded  = "vendor_payout_recorded"
	TypeNotificationRequested = "notification_requested"
	TypeOrderExpired          = "order_expired"
	TypeOrderCanceled         = "order_canceled"
	TypeReservationReleased   = "reservation_released"
	TypeAdCreated             = "ad_created"
	TypeAdUpdated             = "ad_updated"
	TypeAdPaused              = "ad_paused"
	TypeAdActivated           = "ad_activated"
	TypeAdExpired             = "ad_expired"
	TypeAdDailyRollupReady    = "ad_daily_rollup_ready"
)

// Aggregate types: the values of the database enum aggregate_type_enum.
const (
	AggregateVendorOrder   = "vendor_order"
	AggregateCheckoutGroup = "checkout_group"
	AggregateLicense       = "license"
	AggregateStore         = "store"
	AggregateMedia         = "media"
	AggregateLedgerEvent   = "ledger_event"
	AggregateNotification  = "notification"
	AggregateAd            = "ad"
)

// Logical topics. What each is called at the broker is configuration.
const (
	TopicDomain        = "domain"
	TopicAnalytics     = "analytics"
	TopicNotifications = "notifications"
	TopicBilling       = "billing"
)

// types is the catalogue, in the order in which it is listed.
//
//nolint:global // never written
var types = []Type{
	{TypeOrderCreated, AggregateCheckoutGroup, TopicDomain, "a checkout produced its vendor orders", []Field{
		required("checkoutGroupId", id), required("vendorOrderIds", ids),
	}},
	{TypeOrderStateChanged, AggregateVendorOrder, TopicDomain, "a vendor order moved from one state to another", []Field{
		required("orderId", id), optional("checkoutGroupId", id), required("from", text), required("to", text), optional("reason", text),
	}},
	{TypeLineItemStateChanged, AggregateVendorOrder, TopicDomain, "a line item of a vendor order changed state", []Field{
		required("orderId", id), required("lineItemId", id), required("from", text), required("to", text),
	}},
	{TypeLicenseStatusChanged, AggregateLicense, TopicDomain, "a store's license was submitted, verified or rejected", []Field{
		required("licenseId", id), required("storeId", id), oneOf("status", LicensePending, LicenseVerified, LicenseRejected), optional("reason", text),
	}},
	{TypeMediaUploaded, AggregateMedia, TopicDomain, "a store finished uploading a media file", []Field{
		required("mediaId", id), required("storeId", id), required("kind", text), optional("sizeBytes", integer),
	}},
	{TypePaymentSettled, AggregateLedgerEvent, TopicBilling, "the payment provider settled an order's payment", []Field{
		required("orderId", id), required("paymentIntentId", text), required("amountCents", integer), required("settledAt", timestamp),
	}},
	{TypeCashCollected, AggregateVendorOrder, TopicBilling, "cash was collected for a vendor order", []Field{
		required("orderId", id), required("buyerStoreId", id), required("vendorStoreId", id), required("amountCents", integer),
		required("cashCollectedAt", timestamp),
	}},
	{TypeVendorPayoutRecorded, AggregateLedgerEvent, TopicBilling, "a payout to a vendor was recorded", []Field{
		required("orderId", id), required("vendorStoreId", id), required("amountCents", integer), required("paidAt", timestamp),
	}},
	{TypeNotificationRequested, AggregateNotification, TopicNotifications, "a store is to be notified", []Field{
		optional("orderId", id), required("recipientStoreId", id), required("type", text),
	}},
	{TypeOrderExpired, AggregateVendorOrder, TopicDomain, "a vendor order ran out of time", []Field{
		required("orderId", id), required("checkoutGroupId", id), required("expiredAt", timestamp), optional("ttlDays", integer),
	}},
	{TypeOrderCanceled, AggregateVendorOrder, TopicDomain, "a vendor order was canceled", []Field{
		required("orderId", id), required("checkoutGroupId", id), required("canceledAt", timestamp), optional("reason", text),
	}},
	{TypeReservationReleased, AggregateVendorOrder, TopicDomain, "reserved stock of a vendor order was released", []Field{
		required("orderId", id), optional("lineItemId", id), optional("quantity", integer),
	}},
	{TypeAdCreated, AggregateAd, TopicAnalytics, "a store created an ad", adChanged},
	{TypeAdUpdated, AggregateAd, TopicAnalytics, "an ad was edited", adChanged},
	{TypeAdPaused, AggregateAd, TopicAnalytics, "an ad was paused", adChanged},
	{TypeAdActivated, AggregateAd, TopicAnalytics, "an ad went live", adChanged},
	{TypeAdExpired, AggregateAd, TopicAnalytics, "an ad reached its end", adChanged},
	{TypeAdDailyRollupReady, AggregateAd, TopicAnalytics, "an ad's figures of one day are complete", []Field{
		required("adId", id), required("date", date), required("impressions", integer), required("clicks", integer), required("spendCents", integer),
	}},
}

//nolint:global // never written
var adChanged = []Field{required("adId", id), required("storeId", id), required("at", timestamp), optional("changes", document)}

// OrderCreated is the data of order_created.
type OrderCreated struct {
	CheckoutGroupID uuid.UUID   `json:"checkoutGroupId"`
	VendorOrderIDs  []uuid.UUID `json:"vendorOrderIds"`
}

// OrderStateChanged is the data of order_state_changed.
type OrderStateChanged struct {
	OrderID         uuid.UUID `json:"orderId"`
	CheckoutGroupID uuid.UUID `json:"checkoutGroupId,omitzero"`
	From            string    `json:"from"`
	To              string    `json:"to"`
	Reason          string    `json:"reason,omitempty"`
}

// LineItemStateChanged is the data of line_item_state_changed.
type LineItemStateChanged struct {
	OrderID    uuid.UUID `json:"orderId"`
	LineItemID uuid.UUID `json:"lineItemId"`
	From       string    `json:"from"`
	To         string    `json:"to"`
}

// LicenseStatusChanged is the data of license_status_changed.
type LicenseStatusChanged struct {
	LicenseID uuid.UUID `json:"licenseId"`
	StoreID   uuid.UUID `json:"storeId"`
	// Status is LicensePending, LicenseVerified or LicenseRejected.
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// States of a license, the values of LicenseStatusChanged.Status.
const (
	LicensePending  = "pending"
	LicenseVerified = "verified"
	LicenseRejected = "rejected"
)

// MediaUploaded is the data of media_uploaded.
type MediaUploaded struct {
	MediaID   uuid.UUID `json:"mediaId"`
	StoreID   uuid.UUID `json:"storeId"`
	Kind      string    `json:"kind"`
	SizeBytes *int64    `json:"sizeBytes,omitempty"`
}

// PaymentSettled is the data of payment_settled. PaymentIntentID is the payment
// provider's id and therefore not a UUID.
type PaymentSettled struct {
	OrderID         uuid.UUID `json:"orderId"`
	PaymentIntentID string    `json:"paymentIntentId"`
	AmountCents     int64     `json:"amountCents"`
	SettledAt       time.Time `json:"settledAt"`
}

// CashCollected is the data of cash_collected.
type CashCollected struct {
	OrderID         uuid.UUID `json:"orderId"`
	BuyerStoreID    uuid.UUID `json:"buyerStoreId"`
	VendorStoreID   uuid.UUID `json:"vendorStoreId"`
	AmountCents     int64     `json:"amountCents"`
	CashCollectedAt time.Time `json:"cashCollectedAt"`
}

// VendorPayoutRecorded is the data of vendor_payout_recorded.
type VendorPayoutRecorded struct {
	OrderID       uuid.UUID `json:"orderId"`
	VendorStoreID uuid.UUID `json:"vendorStoreId"`
	AmountCents   int64     `json:"amountCents"`
	PaidAt        time.Time `json:"paidAt"`
}

// NotificationRequested is the data of notification_requested.
type NotificationRequested struct {
	OrderID          uuid.UUID `json:"orderId,omitzero"`
	RecipientStoreID uuid.UUID `json:"recipientStoreId"`
	Type             string    `json:"type"`
}

// OrderExpired is the data of order_expired.
type OrderExpired struct {
	OrderID         uuid.UUID `json:"orderId"`
	CheckoutGroupID uuid.UUID `json:"checkoutGroupId"`
	ExpiredAt       time.Time `json:"expiredAt"`
	TTLDays         *int64    `json:"ttlDays,omitempty"`
}

// OrderCanceled is the data of order_canceled.
type OrderCanceled struct {
	OrderID         uuid.UUID `json:"orderId"`
	CheckoutGroupID uuid.UUID `json:"checkoutGroupId"`
	CanceledAt      time.Time `json:"canceledAt"`
	Reason          string    `json:"reason,omitempty"`
}

// ReservationReleased is the data of reservation_released.
type ReservationReleased struct {
	OrderID    uuid.UUID `json:"orderId"`
	LineItemID uuid.UUID `json:"lineItemId,omitzero"`
	Quantity   *int64    `json:"quantity,omitempty"`
}

// AdChanged is the data of ad_created, ad_updated, ad_paused, ad_activated and
// ad_expired. Changes is free-form: an object or an array saying what changed.
type AdChanged struct {
	AdID    uuid.UUID       `json:"adId"`
	StoreID uuid.UUID       `json:"storeId"`
	At      time.Time       `json:"at"`
	Changes json.RawMessage `json:"changes,omitempty"`
}

// AdDailyRollupReady is the data of ad_daily_rollup_ready.
type AdDailyRollupReady struct {
	AdID uuid.UUID `json:"adId"`
	// Date is the day of the figures as YYYY-MM-DD.
	Date        string `json:"date"`
	Impressions int64  `json:"impressions"`
	Clicks      int64  `json:"clicks"`
	SpendCents  int64  `json:"spendCents"`
}

package builtin

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Payload is the data of one event. The set is closed: one of the structs below.
type Payload interface{ payload() }

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

func (OrderCreated) payload()          {}
func (OrderStateChanged) payload()     {}
func (LineItemStateChanged) payload()  {}
func (LicenseStatusChanged) payload()  {}
func (MediaUploaded) payload()         {}
func (PaymentSettled) payload()        {}
func (CashCollected) payload()         {}
func (VendorPayoutRecorded) payload()  {}
func (NotificationRequested) payload() {}
func (OrderExpired) payload()          {}
func (OrderCanceled) payload()         {}
func (ReservationReleased) payload()   {}
func (AdChanged) payload()             {}
func (AdDailyRollupReady) payload()    {}

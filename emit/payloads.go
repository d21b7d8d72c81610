package emit

import "github.com/outboxctl/outboxctl/internal/registry"

// The event types.
const (
	TypeOrderCreated          = registry.TypeOrderCreated
	TypeOrderStateChanged     = registry.TypeOrderStateChanged
	TypeLineItemStateChanged  = registry.TypeLineItemStateChanged
	TypeLicenseStatusChanged  = registry.TypeLicenseStatusChanged
	TypeMediaUploaded         = registry.TypeMediaUploaded
	TypePaymentSettled        = registry.TypePaymentSettled
	TypeCashCollected         = registry.TypeCashCollected
	TypeVendorPayoutRecorded  = registry.TypeVendorPayoutRecorded
	TypeNotificationRequested = registry.TypeNotificationRequested
	TypeOrderExpired          = registry.TypeOrderExpired
	TypeOrderCanceled         = registry.TypeOrderCanceled
	TypeReservationReleased   = registry.TypeReservationReleased
	TypeAdCreated             = registry.TypeAdCreated
	TypeAdUpdated             = registry.TypeAdUpdated
	TypeAdPaused              = registry.TypeAdPaused
	TypeAdActivated           = registry.TypeAdActivated
	TypeAdExpired             = registry.TypeAdExpired
	TypeAdDailyRollupReady    = registry.TypeAdDailyRollupReady
)

// The values of LicenseStatusChanged.Status.
const (
	LicensePending  = registry.LicensePending
	LicenseVerified = registry.LicenseVerified
	LicenseRejected = registry.LicenseRejected
)

// The payloads, one struct per event type; the five ad events share AdChanged.
type (
	// OrderCreated is the data of order_created.
	OrderCreated = registry.OrderCreated
	// OrderStateChanged is the data of order_state_changed.
	OrderStateChanged = registry.OrderStateChanged
	// LineItemStateChanged is the data of line_item_state_changed.
	LineItemStateChanged = registry.LineItemStateChanged
	// LicenseStatusChanged is the data of license_status_changed.
	LicenseStatusChanged = registry.LicenseStatusChanged
	// MediaUploaded is the data of media_uploaded.
	MediaUploaded = registry.MediaUploaded
	// PaymentSettled is the data of payment_settled.
	PaymentSettled = registry.PaymentSettled
	// CashCollected is the data of cash_collected.
	CashCollected = registry.CashCollected
	// VendorPayoutRecorded is the data of vendor_payout_recorded.
	VendorPayoutRecorded = registry.VendorPayoutRecorded
	// NotificationRequested is the data of notification_requested.
	NotificationRequested = registry.NotificationRequested
	// OrderExpired is the data of order_expired.
	OrderExpired = registry.OrderExpired
	// OrderCanceled is the data of order_canceled.
	OrderCanceled = registry.OrderCanceled
	// ReservationReleased is the data of reservation_released.
	ReservationReleased = registry.ReservationReleased
	// AdChanged is the data of ad_created, ad_updated, ad_paused, ad_activated and ad_expired.
	AdChanged = registry.AdChanged
	// AdDailyRollupReady is the data of ad_daily_rollup_ready.
	AdDailyRollupReady = registry.AdDailyRollupReady
)

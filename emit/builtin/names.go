package builtin

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

// States of a license, the values of LicenseStatusChanged.Status.
const (
	LicensePending  = "pending"
	LicenseVerified = "verified"
	LicenseRejected = "rejected"
)

// AggregateTypes lists every aggregate type. No event uses "store" yet: the
// database knows it, so it is listed.
func AggregateTypes() []string {
	return []string{
		AggregateVendorOrder, AggregateCheckoutGroup, AggregateLicense, AggregateStore,
		AggregateMedia, AggregateLedgerEvent, AggregateNotification, AggregateAd,
	}
}

// Topics lists every logical topic.
func Topics() []string {
	return []string{TopicDomain, TopicAnalytics, TopicNotifications, TopicBilling}
}

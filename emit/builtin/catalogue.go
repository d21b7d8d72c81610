package builtin

// catalogue is the table of event types. Adding one means a line here, a constant,
// a payload with its decode function, and a migration that extends the enum; tests
// fail until all four agree.
func catalogue() []entry {
	return []entry{
		{
			TypeOrderCreated, AggregateCheckoutGroup, TopicDomain,
			"a checkout produced its vendor orders", decodeOrderCreated,
		},
		{
			TypeOrderStateChanged, AggregateVendorOrder, TopicDomain,
			"a vendor order moved from one state to another", decodeOrderStateChanged,
		},
		{
			TypeLineItemStateChanged, AggregateVendorOrder, TopicDomain,
			"a line item of a vendor order changed state", decodeLineItemStateChanged,
		},
		{
			TypeLicenseStatusChanged, AggregateLicense, TopicDomain,
			"a store's license was submitted, verified or rejected", decodeLicenseStatusChanged,
		},
		{
			TypeMediaUploaded, AggregateMedia, TopicDomain,
			"a store finished uploading a media file", decodeMediaUploaded,
		},
		{
			TypePaymentSettled, AggregateLedgerEvent, TopicBilling,
			"the payment provider settled an order's payment", decodePaymentSettled,
		},
		{
			TypeCashCollected, AggregateVendorOrder, TopicBilling,
			"cash was collected for a vendor order", decodeCashCollected,
		},
		{
			TypeVendorPayoutRecorded, AggregateLedgerEvent, TopicBilling,
			"a payout to a vendor was recorded", decodeVendorPayoutRecorded,
		},
		{
			TypeNotificationRequested, AggregateNotification, TopicNotifications,
			"a store is to be notified", decodeNotificationRequested,
		},
		{
			TypeOrderExpired, AggregateVendorOrder, TopicDomain,
			"a vendor order ran out of time", decodeOrderExpired,
		},
		{
			TypeOrderCanceled, AggregateVendorOrder, TopicDomain,
			"a vendor order was canceled", decodeOrderCanceled,
		},
		{
			TypeReservationReleased, AggregateVendorOrder, TopicDomain,
			"reserved stock of a vendor order was released", decodeReservationReleased,
		},
		{
			TypeAdCreated, AggregateAd, TopicAnalytics,
			"a store created an ad", decodeAdChanged,
		},
		{
			TypeAdUpdated, AggregateAd, TopicAnalytics,
			"an ad was edited", decodeAdChanged,
		},
		{
			TypeAdPaused, AggregateAd, TopicAnalytics,
			"an ad was paused", decodeAdChanged,
		},
		{
			TypeAdActivated, AggregateAd, TopicAnalytics,
			"an ad went live", decodeAdChanged,
		},
		{
			TypeAdExpired, AggregateAd, TopicAnalytics,
			"an ad reached its end", decodeAdChanged,
		},
		{
			TypeAdDailyRollupReady, AggregateAd, TopicAnalytics,
			"an ad's figures of one day are complete", decodeAdDailyRollupReady,
		},
	}
}

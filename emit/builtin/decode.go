package builtin

// The functions below are the payload contracts: which field has which type and
// whether it must be there. Each reads its struct's fields from d by name, so a
// field that is not named here is unknown and refused.

func decodeOrderCreated(d *decoder) Payload {
	var p OrderCreated
	d.uuid("checkoutGroupId", required, &p.CheckoutGroupID)
	d.uuids("vendorOrderIds", required, &p.VendorOrderIDs)
	return p
}

func decodeOrderStateChanged(d *decoder) Payload {
	var p OrderStateChanged
	d.uuid("orderId", required, &p.OrderID)
	d.uuid("checkoutGroupId", optional, &p.CheckoutGroupID)
	d.text("from", required, &p.From)
	d.text("to", required, &p.To)
	d.text("reason", optional, &p.Reason)
	return p
}

func decodeLineItemStateChanged(d *decoder) Payload {
	var p LineItemStateChanged
	d.uuid("orderId", required, &p.OrderID)
	d.uuid("lineItemId", required, &p.LineItemID)
	d.text("from", required, &p.From)
	d.text("to", required, &p.To)
	return p
}

func decodeLicenseStatusChanged(d *decoder) Payload {
	var p LicenseStatusChanged
	d.uuid("licenseId", required, &p.LicenseID)
	d.uuid("storeId", required, &p.StoreID)
	d.oneOf("status", required, &p.Status, LicensePending, LicenseVerified, LicenseRejected)
	d.text("reason", optional, &p.Reason)
	return p
}

func decodeMediaUploaded(d *decoder) Payload {
	var p MediaUploaded
	d.uuid("mediaId", required, &p.MediaID)
	d.uuid("storeId", required, &p.StoreID)
	d.text("kind", required, &p.Kind)
	d.optionalInteger("sizeBytes", &p.SizeBytes)
	return p
}

func decodePaymentSettled(d *decoder) Payload {
	var p PaymentSettled
	d.uuid("orderId", required, &p.OrderID)
	d.text("paymentIntentId", required, &p.PaymentIntentID)
	d.integer("amountCents", &p.AmountCents)
	d.timestamp("settledAt", &p.SettledAt)
	return p
}

func decodeCashCollected(d *decoder) Payload {
	var p CashCollected
	d.uuid("orderId", required, &p.OrderID)
	d.uuid("buyerStoreId", required, &p.BuyerStoreID)
	d.uuid("vendorStoreId", required, &p.VendorStoreID)
	d.integer("amountCents", &p.AmountCents)
	d.timestamp("cashCollectedAt", &p.CashCollectedAt)
	return p
}

func decodeVendorPayoutRecorded(d *decoder) Payload {
	var p VendorPayoutRecorded
	d.uuid("orderId", required, &p.OrderID)
	d.uuid("vendorStoreId", required, &p.VendorStoreID)
	d.integer("amountCents", &p.AmountCents)
	d.timestamp("paidAt", &p.PaidAt)
	return p
}

func decodeNotificationRequested(d *decoder) Payload {
	var p NotificationRequested
	d.uuid("orderId", optional, &p.OrderID)
	d.uuid("recipientStoreId", required, &p.RecipientStoreID)
	d.text("type", required, &p.Type)
	return p
}

func decodeOrderExpired(d *decoder) Payload {
	var p OrderExpired
	d.uuid("orderId", required, &p.OrderID)
	d.uuid("checkoutGroupId", required, &p.CheckoutGroupID)
	d.timestamp("expiredAt", &p.ExpiredAt)
	d.optionalInteger("ttlDays", &p.TTLDays)
	return p
}

func decodeOrderCanceled(d *decoder) Payload {
	var p OrderCanceled
	d.uuid("orderId", required, &p.OrderID)
	d.uuid("checkoutGroupId", required, &p.CheckoutGroupID)
	d.timestamp("canceledAt", &p.CanceledAt)
	d.text("reason", optional, &p.Reason)
	return p
}

func decodeReservationReleased(d *decoder) Payload {
	var p ReservationReleased
	d.uuid("orderId", required, &p.OrderID)
	d.uuid("lineItemId", optional, &p.LineItemID)
	d.optionalInteger("quantity", &p.Quantity)
	return p
}

func decodeAdChanged(d *decoder) Payload {
	var p AdChanged
	d.uuid("adId", required, &p.AdID)
	d.uuid("storeId", required, &p.StoreID)
	d.timestamp("at", &p.At)
	d.document("changes", &p.Changes)
	return p
}

func decodeAdDailyRollupReady(d *decoder) Payload {
	var p AdDailyRollupReady
	d.uuid("adId", required, &p.AdID)
	d.date("date", &p.Date)
	d.integer("impressions", &p.Impressions)
	d.integer("clicks", &p.Clicks)
	d.integer("spendCents", &p.SpendCents)
	return p
}

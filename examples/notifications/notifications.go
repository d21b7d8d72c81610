// Package notifications is an example of a consumer's effect: for each license_status_changed it
// writes one row into the table notifications. A pending license is a notice to the administrators,
// a verified or rejected one a notice to its store.
//
// The program in the folder worker receives the events. To make a consumer of
// your own, copy both and change what is between the inbox row and the commit.
package notifications

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	// Consumer is the example's name in Redis keys and inbox rows.
	Consumer = "compliance"
	// EventType is the type it handles; its topic carries others as well.
	EventType = "license_status_changed"
)

// insertNotifications writes one row for each element of the arrays.
const insertNotifications = `
INSERT INTO notifications (id, type, audience, store_id, license_id, status, reason, message, event_id)
SELECT gen_random_uuid(), 'compliance', n.audience, n.store_id, n.license_id, n.status, nullif(n.reason, ''), n.message, n.event_id
  FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::uuid[])
    AS n(audience, store_id, license_id, status, reason, message, event_id)`

// Write writes the events' notifications in one statement. The transaction is that of
// their inbox rows, so that there is one for each even when Redis has lost its key.
func Write(ctx context.Context, tx pgx.Tx, events []consume.Event) error {
	var columns [7][]string
	for _, e := range events {
		n, err := read(e.Body)
		if err != nil {
			return consume.Malformed(err)
		}
		if n == nil {
			continue
		}
		for i, value := range []string{n.audience, n.storeID, n.licenseID, n.status, n.reason, n.message,
			e.ID.String()} {
			columns[i] = append(columns[i], value)
		}
	}
	c := columns
	if _, err := tx.Exec(ctx, insertNotifications, c[0], c[1], c[2], c[3], c[4], c[5],
		c[6]); err != nil {
		return fmt.Errorf("insert notifications: %w", err)
	}
	return nil
}

// notification is one row of the table.
type notification struct{ audience, storeID, licenseID, status, reason, message string }

// read decides what to write. Nil means nothing: an empty object is a valid payload that reports no
// change. Fields it does not know are ignored, so that producers may add some.
func read(body []byte) (*notification, error) {
	var envelope wire.Envelope
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, errors.New("body is not an envelope")
	}
	if envelope.Version != wire.EnvelopeVersion {
		return nil, fmt.Errorf("version %d is unknown", envelope.Version)
	}
	var data *struct {
		LicenseID *uuid.UUID `json:"licenseId"`
		StoreID   *uuid.UUID `json:"storeId"`
		Status    string     `json:"status"`
		Reason    string     `json:"reason"`
	}
	if err := json.Unmarshal(envelope.Data, &data); err != nil || data == nil {
		return nil, errors.New("data is not the payload of " + EventType)
	}
	switch {
	case data.LicenseID == nil && data.StoreID == nil && data.Status == "" && data.Reason == "":
		return nil, nil
	case data.LicenseID == nil || data.StoreID == nil:
		return nil, errors.New("data lacks licenseId or storeId")
	case strings.ContainsRune(data.Reason, 0):
		return nil, errors.New("data.reason holds a NUL, which no database text can")
	}
	n := &notification{
		audience: "store", storeID: data.StoreID.String(), licenseID: data.LicenseID.String(), status: data.Status, reason: data.Reason,
	}
	switch data.Status {
	case "pending":
		n.audience = "admin"
		n.message = fmt.Sprintf("License %s of store %s is waiting for review.", n.licenseID, n.storeID)
		return n, nil
	case "verified", "rejected":
		n.message = fmt.Sprintf("Your license %s was %s.", n.licenseID, n.status)
	default:
		return nil, errors.New("data.status is none of pending, verified, rejected")
	}
	if n.reason != "" {
		n.message += " Reason: " + n.reason
	}
	return n, nil
}

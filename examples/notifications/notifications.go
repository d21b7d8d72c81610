// Package notifications is an example of a consumer's effect: for each
// license_status_changed it writes one row into the table notifications. A
// pending license is a notice to the administrators, a verified or rejected one
// a notice to its store.
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

const insertNotification = `
INSERT INTO notifications (id, type, audience, store_id, license_id, status, reason, message, event_id)
VALUES ($1::uuid, 'compliance', $2, $3::uuid, $4::uuid, $5, nullif($6, ''), $7, $8::uuid)`

// Write writes the event's notification. The transaction is that of its inbox row, so
// that there is one notification even when Redis has lost the key.
func Write(ctx context.Context, tx pgx.Tx, e consume.Event) error {
	n, err := read(e.Body)
	if err != nil {
		return consume.Malformed(err)
	}
	if n == nil {
		return nil
	}
	_, err = tx.Exec(ctx, insertNotification,
		uuid.NewString(), n.audience, n.storeID, n.licenseID, n.status, n.reason, n.message, e.ID.String())
	if err != nil {
		return fmt.Errorf("insert notification: %w", err)
	}
	return nil
}

// notification is one row of the table.
type notification struct{ audience, storeID, licenseID, status, reason, message string }

// read decides what to write. Nil means nothing: an empty object is a valid
// payload that reports no change. Fields it does not know are ignored, so that
// producers may add some.
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

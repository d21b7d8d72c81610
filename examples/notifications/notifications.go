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

	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	// Consumer is the example's name in Redis keys and inbox rows.
	Consumer = "compliance"
	// EventType is the type it handles; its topic carries others as well.
	EventType = "license_status_changed"
)

// ErrMalformed means that delivering the event again cannot help. The text names
// the field and never shows a value.
var ErrMalformed = errors.New("malformed event")

// DB is a *pgxpool.Pool, or anything else that begins transactions.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// insertInbox records that the consumer has applied the event. A second
// transaction with the same key waits for the first and then inserts nothing.
const insertInbox = `
INSERT INTO inbox_events (consumer, event_id)
VALUES ($1, $2::uuid)
ON CONFLICT (consumer, event_id) DO NOTHING`

const insertNotification = `
INSERT INTO notifications (id, type, audience, store_id, license_id, status, reason, message, event_id)
VALUES ($1::uuid, 'compliance', $2, $3::uuid, $4::uuid, $5, nullif($6, ''), $7, $8::uuid)`

// Apply writes the event's notification and its inbox row in one transaction.
// It reports false when an earlier delivery did: that keeps the effect single
// even when Redis has lost the key.
func Apply(ctx context.Context, db DB, consumer, eventID string, body []byte) (applied bool, err error) {
	n, err := read(body)
	if err != nil {
		return false, err
	}
	// The level is explicit: under a default of REPEATABLE READ, two deliveries
	// of one event would meet a serialisation failure in the inbox.
	err = pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertInbox, consumer, eventID)
		if err != nil {
			return fmt.Errorf("insert inbox row: %w", err)
		}
		if applied = tag.RowsAffected() == 1; !applied || n == nil {
			return nil
		}
		_, err = tx.Exec(ctx, insertNotification,
			uuid.NewString(), n.audience, n.storeID, n.licenseID, n.status, n.reason, n.message, eventID)
		if err != nil {
			return fmt.Errorf("insert notification: %w", err)
		}
		return nil
	})
	return applied && err == nil, err
}

// notification is one row of the table.
type notification struct{ audience, storeID, licenseID, status, reason, message string }

// read decides what to write. Nil means nothing: an empty object is a valid
// payload that reports no change. Fields it does not know are ignored, so that
// producers may add some.
func read(body []byte) (*notification, error) {
	var envelope wire.Envelope
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, fmt.Errorf("%w: body is not an envelope", ErrMalformed)
	}
	if envelope.Version != wire.EnvelopeVersion {
		return nil, fmt.Errorf("%w: version %d is unknown", ErrMalformed, envelope.Version)
	}
	var data *struct {
		LicenseID *uuid.UUID `json:"licenseId"`
		StoreID   *uuid.UUID `json:"storeId"`
		Status    string     `json:"status"`
		Reason    string     `json:"reason"`
	}
	if err := json.Unmarshal(envelope.Data, &data); err != nil || data == nil {
		return nil, fmt.Errorf("%w: data is not the payload of %s", ErrMalformed, EventType)
	}
	switch {
	case data.LicenseID == nil && data.StoreID == nil && data.Status == "" && data.Reason == "":
		return nil, nil
	case data.LicenseID == nil || data.StoreID == nil:
		return nil, fmt.Errorf("%w: data lacks licenseId or storeId", ErrMalformed)
	case strings.ContainsRune(data.Reason, 0):
		return nil, fmt.Errorf("%w: data.reason holds a NUL, which no database text can", ErrMalformed)
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
		return nil, fmt.Errorf("%w: data.status is none of pending, verified, rejected", ErrMalformed)
	}
	if n.reason != "" {
		n.message += " Reason: " + n.reason
	}
	return n, nil
}

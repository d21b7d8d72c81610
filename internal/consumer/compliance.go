package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// LicenseStatusChanged is the event type the example handles.
const LicenseStatusChanged = "license_status_changed"

// Handler applies one event inside the transaction that also holds its inbox
// row. Whatever it does outside of tx is not protected by the inbox. A
// *MalformedError says that trying again is useless.
type Handler func(ctx context.Context, tx pgx.Tx, e Event) error

// ComplianceHandlers are the example's handlers.
func ComplianceHandlers() map[string]Handler {
	return map[string]Handler{LicenseStatusChanged: notifyCompliance}
}

// Who a notice is for.
const (
	audienceAdmin = "admin"
	audienceStore = "store"
)

// notice is one row of notifications.
type notice struct {
	Audience  string
	StoreID   uuid.UUID
	LicenseID uuid.UUID
	Status    string
	Reason    string
	Message   string
}

// notifyCompliance tells the administrators that a license waits for review, or
// the store how the review ended.
func notifyCompliance(ctx context.Context, tx pgx.Tx, e Event) error {
	n, err := complianceNotice(e.Data)
	if err != nil || n == nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make notification id: %w", err)
	}
	_, err = tx.Exec(ctx, insertNotification,
		id.String(), n.Audience, n.StoreID.String(), n.LicenseID.String(), n.Status, n.Reason, n.Message, e.ID.String())
	if err != nil {
		return fmt.Errorf("insert notification: %w", err)
	}
	return nil
}

// complianceNotice decides what to say. Nil means nothing: an empty object is a
// valid payload that reports no change.
func complianceNotice(data json.RawMessage) (*notice, error) {
	var p struct {
		LicenseID *uuid.UUID `json:"licenseId"`
		StoreID   *uuid.UUID `json:"storeId"`
		Status    string     `json:"status"`
		Reason    string     `json:"reason"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, &MalformedError{"data", "is not the payload of " + LicenseStatusChanged}
	}
	if p.LicenseID == nil && p.StoreID == nil && p.Status == "" && p.Reason == "" {
		return nil, nil
	}
	if p.LicenseID == nil || p.StoreID == nil {
		return nil, &MalformedError{"data", "lacks licenseId or storeId"}
	}
	if strings.ContainsRune(p.Reason, 0) {
		return nil, &MalformedError{"data.reason", "holds a NUL, which no database text can"}
	}
	n := &notice{Audience: audienceStore, StoreID: *p.StoreID, LicenseID: *p.LicenseID, Status: p.Status, Reason: p.Reason}
	switch p.Status {
	case "pending":
		n.Audience = audienceAdmin
		n.Message = fmt.Sprintf("License %s of store %s is waiting for review.", n.LicenseID, n.StoreID)
	case "verified":
		n.Message = fmt.Sprintf("Your license %s was verified.", n.LicenseID)
	case "rejected":
		n.Message = fmt.Sprintf("Your license %s was rejected.", n.LicenseID)
	default:
		return nil, &MalformedError{"data.status", "is none of pending, verified, rejected"}
	}
	if n.Reason != "" && n.Audience == audienceStore {
		n.Message += " Reason: " + n.Reason
	}
	return n, nil
}

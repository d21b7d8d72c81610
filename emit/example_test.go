package emit_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
)

// The license and its event are changed in one transaction: both or neither.
func Example() {
	verifyLicense := func(ctx context.Context, conn *pgx.Conn, licenseID, storeID uuid.UUID) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE licenses SET status = 'verified' WHERE id = $1`, licenseID); err != nil {
				return err
			}
			_, err := packfinderz.Emit(ctx, tx, emit.Event{
				Type:        packfinderz.TypeLicenseStatusChanged,
				AggregateID: licenseID.String(),
				Data:        packfinderz.LicenseStatusChanged{LicenseID: licenseID, StoreID: storeID, Status: packfinderz.LicenseVerified},
				Actor:       &emit.Actor{UserID: "reviewer-7", Role: "admin"},
				// A second verification of the same license emits nothing.
				DedupeKey: "license-verified/" + licenseID.String(),
			})
			return err
		})
	}
	_ = verifyLicense
}

// An ORM that can hand out its *sql.Tx uses EmitSQL. With GORM:
//
//	db.Transaction(func(g *gorm.DB) error {
//		tx := g.Statement.ConnPool.(*sql.Tx)
//		…
//	})
func ExampleEmitter_EmitSQL() {
	pauseAd := func(ctx context.Context, tx *sql.Tx, adID uuid.UUID, data json.RawMessage) error {
		result, err := packfinderz.EmitSQL(ctx, tx, emit.Event{Type: packfinderz.TypeAdPaused, AggregateID: adID.String(), Data: data})
		if err == nil && result.AlreadyEnqueued {
			fmt.Println("told before as", result.ID)
		}
		return err
	}
	_ = pauseAd
}

// A typed emitter takes data of its type only, so that a program writes the name of the type once.
func ExampleFor() {
	emitter := emit.New(packfinderz.Catalogue{})
	verified := emit.For[packfinderz.LicenseStatusChanged](emitter, packfinderz.TypeLicenseStatusChanged)
	event := verified.Event("018f3f6e-0000-7000-8000-000000000001", packfinderz.LicenseStatusChanged{
		LicenseID: uuid.MustParse("018f3f6e-0000-7000-8000-000000000001"), StoreID: uuid.MustParse("018f3f6e-0000-7000-8000-000000000002"), Status: "maybe",
	})
	// verified.Emit(ctx, tx, id, data) says the same before it writes.
	fmt.Println(emitter.Validate(event))
	// Output:
	// invalid event: data.status must be one of pending, verified, rejected
}

// A refused event names every field and its problem; the transaction is unharmed.
func ExampleEmitter_Validate() {
	err := packfinderz.Validate(emit.Event{
		Type: packfinderz.TypeLicenseStatusChanged,
		Data: json.RawMessage(`{"licenseId":"42","status":"approved"}`),
	})
	var invalid *emit.InvalidError
	if errors.Is(err, emit.ErrInvalid) && errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			fmt.Printf("%s %s\n", p.Field, p.Problem)
		}
	}
	// Output:
	// aggregateId is required and must not be the nil uuid
	// data.licenseId must be a uuid
	// data.storeId is required
	// data.status must be one of pending, verified, rejected
}

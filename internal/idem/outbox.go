package idem

import "github.com/outboxctl/outboxctl/internal/outbox"

// Outbox is an installation with what its consumers remember.
type Outbox struct {
	outbox.Outbox
	// Keeper reads the consumers' marks in Redis; nil when no Redis is configured.
	Keeper *Keeper
}

// Package idem remembers, in Redis, which events a consumer has processed.
//
// Pub/Sub delivers at least once, and the publisher may publish an event twice
// when it dies between the broker's acknowledgement and its own settle. A
// consumer therefore asks this package before it acts. The form handlers
// should use has two phases:
//
//	Begin   a short lease with a random token: "somebody is working on it"
//	Done    the long mark: "it happened", kept for the idempotency TTL
//	Abort   the lease is given back, the next delivery may run at once
//
// A process that dies between Begin and Done leaves a lease that expires, so
// the event is redelivered and processed, not lost. The one-step
// CheckAndMarkProcessed marks before the effect and loses the event in that
// window; it exists for effects that may be skipped but never repeated.
//
// What the package guarantees:
//
//   - While Redis keeps its data and a handler finishes or loses its lease as
//     told (its context is cancelled), one event runs in one handler at a time.
//   - A reply lost on the network is not taken for a duplicate: every write
//     carries a token, and finding one's own token means "it was me".
//   - Redis unreachable means no run at all, never an unguarded one.
//   - Begin and Done cost one round trip each; a handler that runs longer than
//     a third of its lease adds one per extension.
//
// What it cannot guarantee is exactly one effect: Redis may be flushed or fail
// over to a replica that lags. Where an effect must happen once, write a row
// that names consumer and event in the effect's own transaction as well.
//
// The server must offer Lua scripts and SET with NX and PX: Redis 2.6.12 or
// later, or anything compatible. No newer command or option is used.
package idem

// Package outbox is the transactional outbox: events are rows that a caller
// writes in its own transaction, and the dispatcher hands every committed row to a
// broker.
//
// What it guarantees:
//
//   - an event is published if, and only if, the transaction that emitted it
//     commits;
//   - it is published at least once: duplicates are possible, consumers must be
//     idempotent, and the event's id is the key to be idempotent by;
//   - what is published are the stored bytes, unchanged;
//   - a row has one id for its whole life: row id, the envelope's eventId, the
//     message attribute event_id and the consumer's idempotency key are the same;
//   - emitting checks everything it can before it talks to the database, because
//     a statement that fails there takes the caller's transaction with it.
//
// The package knows no other room of this module: the catalogue of event types,
// the broker and the clock come in through interfaces it declares.
package outbox

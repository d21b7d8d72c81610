// Package outbox is the row of an event: its columns and status, the statements that
// read and list it, why it can die, and how deaths of the same cause are recognised.
// Package emit writes the row in its caller's transaction, internal/dispatch publishes
// it, internal/dlq keeps its dead letters.
//
// What they guarantee together:
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
// A list never makes the server work for long: a statement walks one index in order, and
// looks at no more than MaxWindow rows of it.
//
// The package imports no other of this program. Its tests put emit to a real database.
package outbox

// Package dlq is the dead letters and every change to them and to events: groups and exports,
// plans, replay, discard, restore, the republication of published events, retry, correction, undo,
// and the audit trail in which they all stand. Its Outbox is what the faces hold: events
// (internal/outbox), what consumers remember (internal/idem) and this.
//
// What the package guarantees, besides what internal/outbox does:
//
//   - Every change goes through a function of the database that writes the audit row in the same
//     transaction. Nothing is changed without one.
//   - Rows are locked before they are judged: two operators working on the same set change each row
//     once, and the second is told so.
//   - A change to many rows is a plan in the database: choose, plan, run. It runs in chunks of one
//     short transaction each. Killed anywhere, it leaves whole chunks behind, and running it again
//     does only the rest.
package dlq

// Package dlq is the dead letters: their rows, groups and exports, plans of changes,
// and the changes themselves: replay, discard and restore, and the republication of
// events that were published.
//
// What the package guarantees:
//
//   - Every change goes through a function of the database that writes the
//     audit row in the same transaction. Nothing is changed without one.
//   - Rows are locked before they are judged: two operators working on the same
//     set change each row once, and the second is told so.
//   - Long work runs in chunks of one short transaction each. Killed anywhere,
//     it leaves whole chunks behind, and running it again does only the rest.
//   - Memory does not grow with the number of rows.
//   - No filter value becomes part of a statement; columns and operators come
//     from a list in this package.
//   - A list never makes the server work for long: a statement looks at one
//     index in order, and at no more than outbox.MaxWindow rows of it.
//
// Of the other packages of this program it knows internal/outbox, the event's row, and the
// fail points of tests.
package dlq

// Package outbox is the events: their rows and the statements that read them, and what an operator
// does with them: list, tail, emit, pause, hold a topic. It also has what dead letters share with
// them: ids and their beginnings, filters, the scan that walks an index, why an event can die and
// how deaths of the same cause are recognised. Package emit writes the row in its caller's
// transaction, internal/dispatch publishes it, internal/dlq keeps its dead letters.
//
// What they guarantee together:
//
//   - an event is published if, and only if, the transaction that emitted it commits;
//   - it is published at least once: duplicates are possible, consumers must be idempotent, and the
//     event's id is the key to be idempotent by;
//   - what is published are the stored bytes, unchanged;
//   - a row has one id for its whole life: row id, the envelope's eventId, the message attribute
//     event_id and the consumer's idempotency key are the same;
//   - emitting checks everything it can before it talks to the database, because a statement that
//     fails there takes the caller's transaction with it.
//
// What this package, internal/dlq, internal/idem and internal/why guarantee to their faces, the
// command line and the web page:
//
//   - A use case takes Params and returns a Result. It prints nothing, asks nothing and reads no
//     command line. Its messages name a filter as the flag does (--state, --tenant), and its hints
//     name commands: the page's addresses take the same names.
//   - Results, and the rows in them, are the JSON contract of docs/json-output.md: their field tags
//     are the documented names.
//   - Errors carry a kind and, where there is one, a hint (internal/fault), of which the face makes
//     an exit code or an HTTP status. What the database says is put into words by the face.
//   - A list never makes the server work for long: a statement walks one index in order, and looks at
//     no more than MaxWindow rows of it. Memory does not grow with the number of rows.
//   - No filter value becomes part of a statement; columns and operators come from a list here.
package outbox

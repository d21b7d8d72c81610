// Package dispatch moves committed events from the outbox table to a broker.
//
// What it guarantees:
//
//   - every committed event that is not terminal is published at least once;
//   - a row belongs to one publisher at a time, by a lease on the database's clock;
//     a verdict is recorded only by the publisher that still holds the lease;
//   - only the broker's acknowledgement marks a row published;
//   - no transaction is open while a message is on its way;
//   - rows with an ordering key are first stored in the order of their seq: none is
//     sent before the one ahead of it in its key is acknowledged or was discarded;
//   - a broker that cannot be reached costs a row one attempt at most, however
//     long it is away.
//
// Data flows one way: row → message → verdict → row. A claim leases rows, each
// becomes a message or is unfit, the Publisher answers for each message, and a
// settle writes the verdicts back.
//
//	               outbox_events
//	               |           |   claim: lease rows behind the cursor
//	     +---------v----+ +----v-----------+
//	     | plain stream | | ordered stream |       loop.go stream.go cursor.go
//	     +---------+----+ +----+-----------+
//	split by topic |           | split by ordering key
//	             +-v-----------v-+   send
//	             |     group     | --------> Publisher    group.go send.go
//	             +-------+-------+ <-------- answers      breaker.go recovery.go
//	                     | verdicts                       judge.go
//	             +-------v-------+  settle
//	             |    settler    | --------> outbox_events    settler.go
//	             +---------------+
//
// The package knows no broker: limits, topics and failure codes are the
// Publisher's. It imports the outbox for the row and its words, nothing else of
// this module but small helpers.
package dispatch

// Package consume makes a message handler idempotent: it runs once per event
// even though the broker delivers at least once.
//
// Events published by outboxctl carry their id in the attribute event_id. A
// Guard remembers in Redis, under pf:evt:processed:<consumer>:<event_id>, which
// of them a consumer has handled, and settles each delivery accordingly:
//
//	handled before           acknowledged, the handler does not run
//	handled now              acknowledged
//	handler failed           nacked, and the next delivery may run at once
//	at work elsewhere        held for a lease at most, then nacked
//	Redis gives no answer    held for 150s at most, then nacked; the handler
//	                         does not run
//	no usable event id       nacked, for the dead-letter policy to take
//
// The key has two phases: a short lease with a random token while the handler runs, then the long
// mark that the effect happened. A process that dies in between leaves a lease that expires, so its
// event is delivered again and processed, not lost.
//
// What the package guarantees:
//
//   - While Redis keeps its data and a handler stops when its context is
//     cancelled, one event runs in one handler at a time.
//   - A reply lost on the network is not taken for a duplicate: every write
//     carries a token, and a guard recognises its own.
//   - While Redis is unreachable no handler runs.
//   - An event costs two round trips, which events handled at the same time
//     share; a handler that runs longer than a third of its lease adds one per
//     extension.
//
// What it cannot guarantee is exactly one effect: duplicates are possible and consumers must be
// idempotent. Redis may be flushed or fail over to a replica that lags, and a process may die after
// its effect and before its mark. Where a second effect would do harm, also insert a row (consumer,
// event_id) in the effect's own transaction.
//
// A Router has a handler per event type. Its Run is a whole consumer: it receives from a Source,
// paces what fails, and receives nothing while Redis or a handler's database is away.
//
// The package works with any broker whose messages can be acked and nacked. It needs Redis 2.6.12
// or later (Lua scripts and SET with NX and PX), or anything compatible.
package consume

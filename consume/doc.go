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
//	at work elsewhere        waited for, at most a lease; then nacked
//	Redis gives no answer    nacked after a pause; the handler does not run
//	no usable event id       nacked, for the dead-letter policy to take
//
// The promise, worded honestly: duplicates are possible and consumers must be
// idempotent; this package makes a duplicate effect rare, not impossible. Redis
// may be flushed or fail over to a replica that lags, and a process may die
// after its effect and before its mark. Where a second effect would do harm,
// also insert a row (consumer, event_id) in the effect's own transaction.
//
// The package works with any broker whose messages can be acked and nacked. It
// needs Redis 2.6.12 or later.
package consume

// Package bench measures outboxctl with itself: it emits events into a scratch
// database, publishes them with the real dispatcher to the Pub/Sub fake, and
// says what that cost.
//
// A figure counts only when the run was correct. Every run ends by comparing
// what the broker received with what the table holds, message by message: each
// event once, with the stored bytes and attributes. A run that lost, doubled or
// changed an event has no result, however fast it was.
//
// Ratios mean more than rates: PostgreSQL, the broker fake and the publisher
// share the machine, so runs that are compared are made one after the other on
// the same server.
package bench

// Package consumer is the example worker: it receives the events of one
// subscription and applies each of them once.
//
// An event is guarded twice. The keeper in Redis turns duplicates away before
// they cost anything; the inbox row, written in the effect's own transaction,
// keeps the effect single even when Redis has forgotten. So, per consumer and
// event:
//
//   - Effects: one, whatever crashes and whatever is delivered again.
//   - Handler runs: usually one; more when a worker dies on the way.
//   - No effect without an answer from Redis, and none without its inbox row.
//
// How a message is settled:
//
//	processed, duplicate         acknowledged
//	type nobody handles here     acknowledged and counted
//	handler failed               nacked after a pause, the key released
//	at work elsewhere            nacked after a pause
//	malformed                    nacked after a pause: the subscription's
//	                             dead-letter policy counts and takes it
//	Redis or PostgreSQL away     nacked, and nothing more is received until
//	                             both answer again: an outage costs a message
//	                             one delivery attempt, not all of them
package consumer

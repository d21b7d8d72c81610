// Package consumer runs handlers on the events of one subscription, with
// metrics, probes and limits: what outboxctl consume adds to the package
// consume. Its consumers are examples/notifications (Example), an HTTP service
// (PostTo) and a command of the shell (RunCommand).
//
// How a message is settled:
//
//	processed, duplicate         acknowledged
//	type without a handler       acknowledged and counted
//	handler failed               nacked after a pause, the key released
//	at work elsewhere            nacked after a pause
//	malformed                    nacked after a pause: the subscription's
//	                             dead-letter policy counts and takes it
//	Redis or PostgreSQL away     nacked, and nothing more is received until
//	                             both answer again: an outage costs a message
//	                             one delivery attempt, not all of them
//
// A handler runs only after Redis has answered, usually once per event, more
// often when a worker dies on the way. The example's effect is written together
// with an inbox row, so that there is one per consumer and event even when
// Redis has forgotten.
package consumer

// Package nats is NATS JetStream as outboxctl uses it: the connection, the streams and their
// consumers, and the Publisher that the dispatcher hands its batches to.
//
// What holds:
//
//   - A message is acknowledged only when a stream has stored it. A subject that no stream
//     listens to is a missing topic, although core NATS would take the message.
//   - What was given up is not stored later: nothing is buffered while the connection is away,
//     and nothing is sent again behind the dispatcher's back.
//   - Messages of an ordering key are sent one after the other, each after the
//     acknowledgement of the one before.
//   - An attribute that NATS would change is refused: it cuts off blanks around values and turns
//     line breaks into blanks.
package nats

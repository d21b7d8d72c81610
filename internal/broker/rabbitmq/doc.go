// Package rabbitmq is RabbitMQ (AMQP 0-9-1) as outboxctl uses it: the connection, the exchanges and
// queues, and the Publisher that the dispatcher hands its batches to.
//
// What holds:
//
//   - A message is acknowledged only when the broker has confirmed it and has not returned it: it
//     confirms what no queue takes, too.
//   - What was given up is not stored later: a channel whose call has ended is closed, and nothing is
//     sent again behind the dispatcher's back.
//   - Messages of an ordering key are published one after the other, each after the confirmation of
//     the one before.
//   - A message that the broker refuses closes its channel, and takes the confirmations of others with
//     it: what is still unconfirmed then is sent again, in parts, on channels of their own.
package rabbitmq

// Package pubsub is Google Cloud Pub/Sub as outboxctl uses it: the connection
// (a project or an emulator), the topics and subscriptions, and the Publisher
// that the dispatcher hands its batches to.
//
// What holds:
//
//   - Publish answers for every message, and every answer is the broker's own:
//     the client library's retries are off, so the gRPC status that decides
//     between "try again", "pause the topic" and "dead letter" is the one the
//     server sent, not the deadline that hid it.
//   - A message is only called rejected when a request that held nothing else
//     was refused with InvalidArgument, and the topic has accepted others of the
//     same request since. Where it has accepted nothing, the dispatcher finds out
//     whether the message or the topic is to blame.
//   - No request exceeds what Pub/Sub accepts in number or bytes.
//   - An error never proves that nothing was stored. A reply can be lost and a
//     cancelled request can still arrive: callers must treat every error except
//     a rejection as "perhaps published", and consumers must be idempotent.
package pubsub

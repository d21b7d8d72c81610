// Package kafka is Apache Kafka as outboxctl uses it: the connection, the topics, and the Publisher
// that the dispatcher hands its batches to.
//
// What holds:
//
//   - Produce requests are our own, one for each partition and part. The client's producer merges calls
//     into its own batches, so that a good event can be refused for another's sake, and it sends what was
//     given up when the broker is back.
//   - What was given up is not sent later: nothing is buffered and nothing is retried.
//   - Messages of an ordering key go to one partition, many in one request, in their order.
package kafka

// Package consumer is what outboxctl consume adds to a consume.Router: the subscription of
// the broker, metrics, probes, limits (Count, IdleExit), and handlers that hand events to an HTTP
// service (PostTo) or to a command of the shell (RunCommand). How a message is settled is said by
// consume.Router's Run.
package consumer

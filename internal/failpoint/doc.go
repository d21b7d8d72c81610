// Package failpoint marks the moments at which a crash is worst: between two writes that belong
// together, or between an effect and the record of it. A program built with the tag failpoints can
// be told to die, or to stand still, at one of them; in any other build Hit is an empty function
// and costs nothing.
//
// One failpoint per process is armed through the environment:
//
//	OUTBOXCTL_FAILPOINT=publish.acknowledged:crash:3   kill the process the third time it gets there
//	OUTBOXCTL_FAILPOINT=publish.acknowledged:stop:1    stop it (SIGSTOP) until SIGCONT arrives
package failpoint

// The failpoints of the publisher.
const (
	// Claimed: rows are leased, only this process knows of them.
	Claimed = "publish.claimed"
	// Sending: a group is about to be handed to the broker.
	Sending = "publish.sending"
	// Acknowledged: the broker has the messages, the rows do not say so.
	Acknowledged = "publish.acknowledged"
	// Settling: the verdicts are on their way to the database; whether it has read, run or committed
	// them is open.
	Settling = "settle.sent"
	// Settled: the database has committed, the dispatcher has not heard of it.
	Settled = "settle.committed"
	// DeadLettering: as Settling, with dead letters among the verdicts.
	DeadLettering = "settle.dead_lettering"
)

// The failpoints of the operator's commands.
const (
	// Replaying: dead letters are re-queued and audited, the transaction is not committed.
	Replaying = "dlq.acted"
	// Cleaning: a batch is removed, the next one is not begun.
	Cleaning = "cleanup.batch"
)

// The failpoints of the consumer.
const (
	// Begun: Redis holds the lease, nothing has happened yet.
	Begun = "consume.begun"
	// Applied: the effect is committed, Redis says "processing".
	Applied = "consume.applied"
	// Done: Redis says "done", the message is not acknowledged.
	Done = "consume.done"
)

// Env names the variable that arms a failpoint.
const Env = "OUTBOXCTL_FAILPOINT"

// Publisher lists the failpoints of the dispatcher.
func Publisher() []string {
	return []string{Claimed, Sending, Acknowledged, Settling, Settled, DeadLettering}
}

// Operator lists the failpoints of the commands that change something.
func Operator() []string { return []string{Replaying, Cleaning} }

// Consumer lists the failpoints of a worker.
func Consumer() []string { return []string{Begun, Applied, Done} }

package consumer

const (
	// DefaultConcurrency is how many events are handled at once. Each waits for
	// Redis and PostgreSQL most of the time, so it is far above the cores.
	DefaultConcurrency = 64

	// DefaultConnections to PostgreSQL. A commit waits for the disk, and commits that wait together
	// share one flush: fewer connections than this leave throughput to the disk's latency.
	DefaultConnections = 32
)

package migrate

import "time"

// LockKey is the advisory lock of migration runs.
const LockKey = lockKey

// ReportEvery makes a run talk more often.
func (o Options) ReportEvery(d time.Duration) Options {
	o.reportEvery = d
	return o
}

// Oldest asks for a server of this version at least.
func (o Options) Oldest(major int) Options {
	o.oldest = major
	return o
}

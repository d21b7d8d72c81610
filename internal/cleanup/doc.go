// Package cleanup removes what is no longer needed: events published longer ago than a retention
// time, dead letters that were handled, inbox rows older than anything that may still be delivered
// again, and old audit rows.
//
// It holds whatever it is asked for: an event that is not published is never deleted (nor a dead
// letter that is open); each transaction that deletes is short, so replication and other writers
// are not held up; one cleaner works at a time, from its first batch to its last; a run that is
// killed loses nothing, and the next one goes on where it ended; a run has one audit row, to which
// every batch adds what it deleted, in the same transaction.
package cleanup

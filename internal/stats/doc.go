// Package stats reads how an outbox is doing: what waits, what moves, what is dead, which
// publishers are alive.
//
// Every figure is exact and taken from one snapshot, so the figures of one report agree with each
// other and with the tables. None needs a sequential scan of the events: what waits is read from
// the claim index, what was published from the index on published_at.
package stats

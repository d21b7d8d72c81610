// Package bench measures what only those who change outboxctl ask: what stands in the way of a
// drain, what lies behind it, what an idle publisher and the web page cost, and how far a drain is
// from the database alone and from the loop most people write first. The measuring itself is that
// of outboxctl bench.
package bench

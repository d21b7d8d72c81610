// Package catalogue reads, checks and holds catalogues: which event types there are, the topic,
// aggregate and payload of each, and what becomes of an event that does not fit.
//
// A catalogue is written as YAML (Load), in Go (New), or is the one that outboxctl brings
// (PackFinderz):
//
//	outbox: 1
//	name: doorito
//	topics: {orders: doorito-orders}
//	types:
//	  order.ready: {topic: orders, aggregate: order, schema: schemas/order.ready.json}
//
// What it guarantees:
//
//   - a catalogue that was made is complete: every name is well formed, every schema compiles, and all problems of one
//     that is refused are reported together, with their lines;
//   - schemas refer to files in the catalogue's folder and nothing else is opened;
//   - errors name the field and the rule, never the value, so that they may be logged and stored;
//   - a type's digest is the same wherever the same is said of it.
//
// A Catalogue does not change and is safe for concurrent use.
package catalogue

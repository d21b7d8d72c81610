// Package check reads what a torture run recorded and says which of the promised invariants it
// broke. It needs no server: the recorded history is all it looks at, so a run can be judged again
// later, by a better checker.
//
// The truth is the producers' ledger: an event is committed if and only if the ledger has it.
// Everything else, the broker's messages, the consumers' effects, the outbox rows and every change
// of them, is held against it.
//
//	I1  every committed event that is not dead was stored by the broker
//	I2  nothing uncommitted was published or applied
//	I3  the ledger agrees with what each producer saw of its transaction
//	I4  exactly one row per committed event
//	I5  events of an ordering key are first stored in the order of seq, and nothing behind one never stored; a request has one
//	    key, that of its rows
//	I6  one effect per consumer and event; further handler runs have a cause
//	I7  the dead letters that are open are the terminal failures, exactly
//	I8  what was published is what was stored, byte for byte, and what the producer meant
//	I9  at the end nothing is leased and nothing is pending
//	I10 no change of a row by a publisher that does not hold its lease
//	I11 attempts are the recorded failures and nothing else
//	I12 each duplicate has a fault that explains it, and there are not too many
//	I13 the stats command says what the tables say
//	I14 processes end and leave nothing open
//	I15 cleanup removed what it may; operators' changes are in the audit; their commands fail only with a cause
//
// A fact is reported once, under the invariant that names it best: an event whose row is gone is I4
// and not also I1.
//
// Two names carry meaning. A change whose By begins with "operator" is an operator's. A fault about
// Redis, a consumer, a producer or an operator says so in its kind or target; every other fault is
// taken to be one that publishing feels.
package check

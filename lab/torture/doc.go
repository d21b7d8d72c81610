// Package torture runs the whole system for minutes under faults and writes down what happened.
//
// Real PostgreSQL with a wrong clock, real Redis, three publishers and two consumers as processes
// of their own, each publisher behind network proxies of its own, Google's Pub/Sub fake behind a
// wrapper that records every message and can lose replies. Producers commit, roll back, commit late
// and lose the reply of their COMMIT; operators look, replay, discard, clean up and migrate
// meanwhile. A seed fixes the workload and the plan of faults; failpoints put crashes into the
// windows that matter.
//
// The run judges nothing. It leaves a [history.History], and [check.Check] says afterwards whether
// an invariant was broken, or whether the run had too little load or too few faults to prove
// anything.
package torture

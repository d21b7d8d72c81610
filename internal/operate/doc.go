// Package operate holds the operator's use cases: what to look at, what to change, and whether it may be changed. The
// command line is one face of it, the web page the other.
//
// What it guarantees:
//
//   - A use case takes Params and returns a Result. It prints nothing, asks nothing and reads no command line, so that it
//     can be tested, and called, without a terminal. Its messages name a filter as the flag does (--state, --tenant), and
//     its hints name commands: the page's addresses take the same names.
//   - Results, and the rows of internal/outbox and internal/dlq in them, are the JSON contract of docs/json-output.md: their
//     field tags are the documented names.
//   - Errors carry a kind and, where there is one, a hint (internal/fault). The face makes an exit code or an HTTP status
//     of them.
//   - Every change leaves an audit row in the same transaction.
package operate

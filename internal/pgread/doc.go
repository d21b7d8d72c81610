// Package pgread reads PostgreSQL with a limit on every statement. Where a statement is given up it
// says who is in the way.
//
// The limits hold for one transaction each: behind a transaction-mode pooler a setting of the
// session would be lost, or reach another client.
package pgread

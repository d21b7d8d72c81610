// Package model has no code but its tests: random sequences of what producers and operators do, run
// against the real programs and PostgreSQL, and a model that says what must come of each.
// docs/proof/simulation.md describes it.
package model

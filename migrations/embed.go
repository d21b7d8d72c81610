// Package migrations holds the database schema as goose SQL files, one step
// each, compiled into the binary so that a deployed version always carries
// exactly the schema it was built for.
package migrations

import "embed"

// FS holds every NNNNN_verb_noun.sql at its root.
//
//go:embed *.sql
var FS embed.FS

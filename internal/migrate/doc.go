// Package migrate brings a database's schema to the version this binary was
// built for, while production keeps writing.
//
// It guarantees:
//
//   - One migration run per database at a time: an advisory lock is held by the
//     very session that does the work, so losing the lock loses the work too.
//   - No statement waits for a table lock longer than Options.LockTimeout: a
//     long reader delays the migration, never the writers queued behind it.
//   - A run that was killed at any point can be started again and finishes.
//   - Status, Version, Survey and Scripts change nothing in the database.
package migrate

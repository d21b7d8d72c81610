// Package migrate creates and updates the outbox tables from a Go program, as outboxctl migrate
// does: one run per database at a time, never queueing production behind a table lock, and safe to
// start again wherever it was killed.
package migrate

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

// What Options.Types may be.
const (
	// Text makes event types, aggregate types and aggregate ids text, for a catalogue of your own.
	Text = "text"
	// Enum makes them enums of the built-in types and UUIDs.
	Enum = "enum"
)

// Options of a run. The zero value is usable.
type Options struct {
	// Types are those of the columns that Up creates in an empty database, Text or Enum; empty means
	// Enum. Tables that exist keep theirs: to ask for others is an error.
	Types string
	// Progress is told what happens, in words for a human, one call at a time; nil discards it.
	Progress func(message string)
}

func (o Options) internal() migrate.Options {
	return migrate.Options{Types: o.Types, Progress: o.Progress}
}

// Result is what a run did.
type Result struct {
	// Ran are the migrations that ran, in order; empty when there was nothing to do.
	Ran []Ran
	// From and To are the versions before and after.
	From, To int64
	// Waited is how long another run was waited for.
	Waited time.Duration
	// MissingRoles are the roles that do not exist, because this database user may not create
	// them. ForeignRoles are those that got no rights here, because they have rights elsewhere
	// or members already.
	MissingRoles, ForeignRoles []string
	// Schema is the outbox's, quoted. Creators are who may create in it.
	Schema   string
	Creators []string
}

// Ran is one migration that ran.
type Ran struct {
	Version int64
	Name    string
	Took    time.Duration
}

// Adoption is what a run would find in a database and do to it.
type Adoption struct {
	// Database and Binary are the versions of the database and of this program, Pending is how
	// many migrations the database lacks.
	Database, Binary int64
	Pending          int
	// Exists: there is a table outbox_events. Types are those of its event types, or of the
	// table that would be created.
	Exists bool
	Types  string
	// Blocked is what keeps the table from being adopted; empty: nothing does.
	Blocked []Difference
	// Harmless is what differs and does not matter, Warnings what has to be known before.
	Harmless, Warnings []string
	// Rows is PostgreSQL's own estimate, Waiting is counted.
	Rows, Waiting          int64
	TableBytes, IndexBytes int64
	// Steps are those that take time, Seconds all of them; GrowthBytes is what the table and
	// its indexes grow by, and WALBytes what is logged.
	Steps                 []Estimate
	Seconds               float64
	GrowthBytes, WALBytes int64
	// Sessions are those that use the table now.
	Sessions []Session
}

// Difference is something in which a table differs from what it must be.
type Difference struct {
	Column, Problem string
	// Statement would help.
	Statement string
}

// Estimate is how long a step is likely to take, and what it does in that time.
type Estimate struct {
	Step    string
	Seconds float64
	Does    string
}

// Session is one that uses the table.
type Session struct {
	PID               int32
	User, Application string
	// Does is writes, publishes or reads, as far as its locks and its last statement show.
	Does string
	// Since is when its transaction began; nil outside of one.
	Since *time.Time
}

// Up applies what the database lacks. The pool's user has to own the outbox, or may create in its
// schema.
func Up(ctx context.Context, pool *pgxpool.Pool, opts Options) (Result, error) {
	r, err := migrate.Up(ctx, pool, opts.internal())
	return Result{
		Ran:  list(r.Ran, func(s migrate.Ran) Ran { return Ran{s.Version, s.Name, s.Took} }),
		From: r.From, To: r.To, Waited: r.Waited, MissingRoles: r.MissingRoles, ForeignRoles: r.ForeignRoles,
		Schema: r.Schema, Creators: r.Creators,
	}, err
}

// Survey returns what Up would find and do: whether an existing table can become the outbox, and how
// long that takes. It only reads. Adoption.Blocked lists what has to change first.
func Survey(ctx context.Context, pool *pgxpool.Pool, opts Options) (Adoption, error) {
	a, err := migrate.Survey(ctx, pool, opts.internal())
	return Adoption{
		Database: a.Database, Binary: a.Binary, Pending: a.Pending, Exists: a.Exists, Types: a.Types,
		Blocked:  list(a.Blocked, func(d migrate.Difference) Difference { return Difference(d) }),
		Harmless: a.Harmless, Warnings: a.Warnings, Rows: a.Rows, Waiting: a.Waiting,
		TableBytes: a.TableBytes, IndexBytes: a.IndexBytes,
		Steps:   list(a.Steps, func(e migrate.Estimate) Estimate { return Estimate(e) }),
		Seconds: a.Seconds, GrowthBytes: a.GrowthBytes, WALBytes: a.WALBytes,
		Sessions: list(a.Sessions, func(s migrate.Session) Session { return Session(s) }),
	}, err
}

func list[A, B any](in []A, to func(A) B) (out []B) {
	for _, x := range in {
		out = append(out, to(x))
	}
	return out
}

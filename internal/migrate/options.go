package migrate

import (
	"cmp"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/outboxctl/outboxctl/migrations"
)

// Table is the name of the table that records applied migrations.
const Table = "outbox_schema_version"

// Defaults of Options.
const (
	// DefaultLockTimeout bounds how long production can be queued behind one of our statements.
	DefaultLockTimeout = 250 * time.Millisecond
	// DefaultRetryFor bounds how long one migration is tried again while others hold its locks.
	DefaultRetryFor = 5 * time.Minute
	// DefaultWait bounds how long a run waits for another run to finish.
	DefaultWait = 10 * time.Minute
	// DefaultPace leaves production half of the time.
	DefaultPace = 1
)

// Options of a run. The zero value is usable.
type Options struct {
	// Types are those of the columns that Up creates, TypesEnum or TypesText. An outbox that has
	// others is refused. Empty means what the database has and, in an empty one, FreshTypes.
	Types string
	// FreshTypes is what an empty database gets unless Types says so; empty means TypesEnum.
	FreshTypes string
	// Pace is how long an adopted table's backfill rests after each batch, measured by what the batch
	// took; 0 means DefaultPace, negative means not at all.
	Pace float64
	// Migrations replaces the embedded files; nil means migrations.FS.
	Migrations fs.FS
	// LockTimeout is PostgreSQL's lock_timeout for every statement; 0 means DefaultLockTimeout.
	LockTimeout time.Duration
	// RetryFor bounds the retries of one migration after lock timeouts and deadlocks;
	// 0 means DefaultRetryFor, negative means not at all.
	RetryFor time.Duration
	// Wait bounds the wait for another run; 0 means DefaultWait, negative means not at all.
	Wait time.Duration
	// To is the last version to apply; 0 means all.
	To int64
	// Progress is told what happens, in words for a human, one call at a time; nil discards it.
	Progress func(message string)

	// What tests replace: jitter in [0,1), how often a run that waits says so, and the oldest server.
	jitter      func() float64
	reportEvery time.Duration
	oldest      int
}

// Options.Types.
const (
	// TypesEnum: event and aggregate types are enums with the built-in values, aggregate ids are
	// UUIDs.
	TypesEnum = "enum"
	// TypesText: all three are text.
	TypesText = "text"
)

func (o Options) withDefaults() Options {
	if o.Migrations == nil {
		o.Migrations = migrations.FS
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = DefaultLockTimeout
	}
	if o.RetryFor == 0 {
		o.RetryFor = DefaultRetryFor
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	o.FreshTypes = cmp.Or(o.Types, o.FreshTypes, TypesEnum)
	if o.Pace == 0 {
		o.Pace = DefaultPace
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.reportEvery == 0 {
		o.reportEvery = 10 * time.Second
	}
	o.oldest = cmp.Or(o.oldest, OldestServer)
	if o.jitter == nil {
		o.jitter = rand.Float64
	}
	return o
}

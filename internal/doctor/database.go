package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/pgread"
)

// Database is what the checks of PostgreSQL need to know.
type Database struct {
	// Pool reads it.
	Pool *pgread.DB
	// EventTypes are the types this binary knows.
	EventTypes []string
	// ExecMode is how statements are sent.
	ExecMode string
	// XminHeldFor is how long a session may keep vacuum from its work before it is worth a remark.
	XminHeldFor time.Duration
	// LockWait is how long a session may wait for a lock before it is worth a remark.
	LockWait time.Duration
	Now      func() time.Time
}

// DefaultLockWait is longer than statements on the outbox hold a lock.
const DefaultLockWait = time.Second

// DefaultXminHeldFor is longer than honest transactions and shorter than the trouble they would
// cause.
const DefaultXminHeldFor = 5 * time.Minute

const area = "database"

// Checks are the checks of the server.
func (d Database) Checks() []Check {
	reach := "check database.url with outboxctl config view"
	return []Check{
		{area, "locks", reach, d.locks},
		{area, "connections", reach, d.connections},
		{area, "version", reach, d.version},
		{area, "durability", reach, d.durability},
		{area, "clock", reach, d.clock},
		{area, "pooler", reach, d.pooler},
		{area, "rights", "", d.rights},
	}
}

// TableChecks are the checks of the outbox's tables.
func (d Database) TableChecks() []Check {
	return []Check{
		{area, "roles", "", d.roles},
		{area, "enums", "outboxctl migrate", d.enums},
		{area, "indexes", "outboxctl migrate", d.indexes},
		{area, "foreign", "", d.foreign},
		{area, "vacuum", "", d.vacuum},
		{area, "xmin", "", d.xmin},
		{area, "leases", "", d.leases},
		{area, "order", "", d.order},
	}
}

func (d Database) version(ctx context.Context) ([]Finding, error) {
	var number int
	var name string
	err := d.Pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version')`).Scan(&number, &name)
	if err != nil {
		return nil, err
	}
	return judgeVersion(number, name), nil
}

// order looks at how seq is drawn, which is the order of an ordering key. A session that draws
// numbers in advance uses them later, behind larger ones of others.
func (d Database) order(ctx context.Context) ([]Finding, error) {
	var cached int64
	err := d.Pool.QueryRow(ctx, `
SELECT s.seqcache FROM pg_sequence AS s WHERE s.seqrelid = pg_get_serial_sequence('outbox_events', 'seq')::regclass`).Scan(&cached)
	if err != nil {
		return nil, err
	}
	if cached != 1 {
		return fail("ALTER TABLE outbox_events ALTER COLUMN seq SET CACHE 1", "seq is drawn in blocks of %d: events of an ordering key get the wrong order", cached), nil
	}
	return ok("seq is drawn one by one, in the order of emitting"), nil
}

// judgeVersion refuses what migrate refuses.
func judgeVersion(number int, name string) []Finding {
	if number < migrate.OldestServer*10000 {
		old := migrate.TooOld(name)
		return fail(fault.HintOf(old), "%v", old)
	}
	return ok("PostgreSQL %s", name)
}

// durability looks at settings that let a server forget what it has acknowledged.
func (d Database) durability(ctx context.Context) ([]Finding, error) {
	var fsync, commit, pages, vacuum string
	err := d.Pool.QueryRow(ctx, `
SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'), current_setting('autovacuum')`).
		Scan(&fsync, &commit, &pages, &vacuum)
	if err != nil {
		return nil, err
	}
	var found []Finding
	if fsync == "off" || pages == "off" {
		found = append(found, warn("set fsync and full_page_writes to on", "fsync is %s, full_page_writes %s: a crash of the server can corrupt the outbox", fsync, pages)...)
	}
	if commit == "off" {
		found = append(found, warn("set synchronous_commit to on for the emitters", "synchronous_commit is off: a crash can lose events whose commit was acknowledged")...)
	}
	if vacuum == "off" {
		found = append(found, fail("set autovacuum to on", "autovacuum is off: the outbox will bloat until claims crawl")...)
	}
	if found == nil {
		found = ok("commits are durable, autovacuum is on")
	}
	return found, nil
}

func (d Database) clock(ctx context.Context) ([]Finding, error) {
	before := d.Now()
	var there time.Time
	if err := d.Pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return nil, err
	}
	here := before.Add(d.Now().Sub(before) / 2)
	apart := there.Sub(here).Round(time.Millisecond)
	if math.Abs(apart.Seconds()) > 5 {
		return warn("set the clocks by NTP", "this machine and the server are %s apart; leases use the server's clock, but ages shown here will be off", apart), nil
	}
	return ok("this machine and the server are %s apart", apart), nil
}

// pooler finds out whether each statement may get another backend, which is what a transaction-mode
// pooler does.
func (d Database) pooler(ctx context.Context) ([]Finding, error) {
	conn, err := d.Pool.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	backends := map[int]bool{}
	var attached string
	for range 5 {
		var pid int
		err := conn.QueryRow(ctx, `SELECT pg_backend_pid(), coalesce(inet_server_port()::text, 'socket')`).Scan(&pid, &attached)
		if err != nil {
			return nil, err
		}
		backends[pid] = true
	}
	port := fmt.Sprint(conn.Conn().Config().Port)
	switch {
	case slices.Contains([]string{"exec", "simple_protocol"}, d.ExecMode):
		return ok("database.exec_mode %s works with and without a transaction pooler", d.ExecMode), nil
	case len(backends) > 1:
		return warn("set database.exec_mode to exec",
			"a transaction-mode pooler stands in between and database.exec_mode is %s: prepared statements get lost; migrate needs a direct connection", d.ExecMode), nil
	case attached != "socket" && attached != port:
		return ok("a proxy or pooler stands in between (port %s here, %s there); in transaction mode it needs database.exec_mode exec", port, attached), nil
	default:
		return ok("connected to the server itself"), nil
	}
}

// rights looks who may create in the schema: any session that has it on its search_path, an
// operator's or a superuser's, runs the functions and operators they put there in the place of
// PostgreSQL's own.
func (d Database) rights(ctx context.Context) ([]Finding, error) {
	schema, creators, err := migrate.Creators(ctx, d.Pool)
	if err != nil {
		return nil, err
	}
	if len(creators) == 0 {
		return ok("only its owner may create in schema %s", schema), nil
	}
	names := strings.Join(creators, ", ")
	return fail(fmt.Sprintf("REVOKE CREATE ON SCHEMA %s FROM %s", schema, names),
		"%s may create in schema %s, and so run code as the roles that use the outbox", names, schema), nil
}

func (d Database) enums(ctx context.Context) ([]Finding, error) {
	there, err := outbox.Column[string](ctx, d.Pool, "read the event types", `
SELECT e.enumlabel
  FROM pg_attribute AS a
  JOIN pg_enum AS e ON e.enumtypid = a.atttypid
 WHERE a.attrelid = to_regclass('outbox_events') AND a.attname = 'event_type'
 ORDER BY e.enumsortorder`)
	if err != nil || len(there) == 0 { // text takes any type
		return nil, err
	}
	missing := without(d.EventTypes, there)
	strange := without(there, d.EventTypes)
	switch {
	case len(missing) > 0:
		return fail("outboxctl migrate", "the database does not know %s: emitting them fails", strings.Join(missing, ", ")), nil
	case len(strange) > 0:
		return warn("upgrade outboxctl: events of these types end in the dead-letter table", "this binary does not know %s", strings.Join(strange, ", ")), nil
	default:
		return ok("binary and database agree on %d event types", len(there)), nil
	}
}

func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

func (d Database) indexes(ctx context.Context) ([]Finding, error) {
	found, compared, err := drift(ctx, d.Pool, func(o object) bool { return o.Kind == "index" })
	if err == nil && found == nil {
		found = ok("all %d are there and valid", compared)
	}
	return found, err
}

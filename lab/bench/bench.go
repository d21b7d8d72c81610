// Package bench measures outboxctl from outside: it starts the program as a user does, on a scratch
// database and against brokers in this process, and says what each event cost. Because it knows the
// program by its command line and the SQL functions alone, it compares an old binary with a new one.
//
// A figure counts only when the run was correct. Every run ends by comparing what the broker received
// with what the table holds, message by message: each event once, with the stored bytes and
// attributes. A run that lost, doubled or changed an event has no result, however fast it was.
//
// Ratios mean more than rates: PostgreSQL, the broker and the publisher share the machine, so runs
// that are compared are made in turn on the same server.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// Params describes a run. Zero values mean the mode's default.
type Params struct {
	Mode string
	// Program is the outboxctl that is measured; Against is one that takes turns with it.
	Program, Against string
	// Rounds is how often runs that are compared take turns. The best of each figure counts: whatever
	// else the machine does only makes them worse.
	Rounds int
	Sizes
	// PayloadBytes is about the size of payload_json.
	PayloadBytes int
	// Keys is how many ordering keys the events share.
	Keys int
	// Open is how long the transactions of the steady modes stay open behind their event.
	Open time.Duration
	// Workers and BatchSize are handed to the publisher; zero means its defaults.
	Workers, BatchSize int
	// NoWake leaves the publisher to polling.
	NoWake bool
	// Broker is where events go.
	Broker string
	// Check runs what the mode is compared with and judges the result.
	Check bool
	// DatabaseURL is a server on which a scratch database may be created and dropped. Empty starts a
	// private one with PostgreSQL's default settings.
	DatabaseURL string
	// Log is told what happens.
	Log io.Writer

	types  []eventType // of the scratch database's catalogue
	retype func() string
}

// Sizes are what modes have defaults of their own for.
type Sizes struct {
	// Events is how many are emitted and must arrive. Steady modes emit Rate × Duration instead.
	Events     int
	Publishers int
	// Rate is events per second of the steady modes, Duration how long they last.
	Rate     int
	Duration time.Duration
	// Head is how many rows stand in front or lie behind.
	Head int
}

func (p Params) say(format string, args ...any) {
	fmt.Fprintf(p.Log, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// Mode is what is measured, and how.
type Mode struct {
	Name, Summary string
	Defaults      Sizes
	// measure makes the runs, by rig's steps, and returns the one that the others are compared with.
	measure func(ctx context.Context, s *Session, p Params) *Report
}

// Modes are all that there are.
func Modes() []Mode {
	modes := []Mode{
		{"drain", "empty a backlog; --check holds what every drain must", Sizes{}, drain},
		{"compared", "drain, a River worker that publishes, and a row-by-row loop, in turn", Sizes{}, compared},
		{"brokers", "drain to each destination, on servers of its own", Sizes{}, brokers},
		{"keys", "drain events of --keys ordering keys, of a thousand, of one, and beside --head parked ones",
			Sizes{Head: 100_000}, keys},
		{"backlog", fmt.Sprintf("drain --head rows; --check compares with %d", smallBacklog), Sizes{Head: 1_000_000}, backlog},
		{"catalogue", "drain with one type, with 500, and with a JSON Schema for each", Sizes{}, catalogues},
		{"steady", "commit at a steady --rate for --duration; from commit to acknowledgement", Sizes{Rate: 200, Duration: 20 * time.Second}, steady},
		{"pinned-xmin", "steady while an open transaction keeps every dead row", Sizes{Rate: 800, Duration: time.Minute}, pinnedXmin},
		{"idle", "what a publisher with nothing to do costs", Sizes{Duration: 20 * time.Second}, idle},
		{"consume", "the example consumer on a waiting subscription: Redis, handler, inbox, acknowledgement", Sizes{Events: 10_000}, consuming},
		{"emit", "outbox_emit and outbox_emit_many against a plain INSERT, with one type and with 500", Sizes{}, emitting},
		{"ui", "every page over --head rows, a fifth of them dead letters, and a drain beside 20 viewers",
			Sizes{Events: 60_000, Head: 50_000}, measureUI},
	}
	for _, h := range heads() {
		modes = append(modes, h.mode())
	}
	return modes
}

const (
	maxPayloadBytes = 1 << 20 // keeps a run in memory
	maxPublishers   = 64
)

// withDefaults fills in what the mode is measured with.
func (p Params) withDefaults(m Mode) Params {
	p.Broker = cmp.Or(p.Broker, toPubSub)
	p.Events = cmp.Or(p.Events, m.Defaults.Events, 50_000)
	p.Publishers = cmp.Or(p.Publishers, m.Defaults.Publishers, 1)
	p.Rate = cmp.Or(p.Rate, m.Defaults.Rate, 200)
	p.Duration = cmp.Or(p.Duration, m.Defaults.Duration, 20*time.Second)
	p.Head = cmp.Or(p.Head, m.Defaults.Head)
	p.PayloadBytes = cmp.Or(p.PayloadBytes, 400)
	p.Rounds = cmp.Or(p.Rounds, 2)
	p.types = []eventType{order()}
	if p.Log == nil {
		p.Log = io.Discard
	}
	return p
}

func (p Params) validate() error {
	var problems []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	refuse(p.Events < 1, "events must be at least 1")
	refuse(p.PayloadBytes < 1 || p.PayloadBytes > maxPayloadBytes, "payload must be 1 to %d bytes", maxPayloadBytes)
	refuse(p.Publishers < 1 || p.Publishers > maxPublishers, "publishers must be 1 to %d", maxPublishers)
	refuse(p.Rate < 1, "rate must be at least 1 per second")
	refuse(p.Duration < time.Second, "duration must be at least 1s")
	refuse(p.Rounds < 1, "rounds must be at least 1")
	refuse(p.Head < 0 || p.Keys < 0 || p.Workers < 0 || p.BatchSize < 0 || p.Open < 0,
		"head, keys, workers, batch size and open must not be negative")
	refuse(p.Mode == "idle" && p.DatabaseURL != "", "mode idle needs a server of its own")
	refuse(!slices.Contains(Brokers(), p.Broker), "broker %q is not one of %s", p.Broker, strings.Join(Brokers(), ", "))
	for _, program := range []string{p.Program, cmp.Or(p.Against, p.Program)} {
		info, err := os.Stat(program)
		refuse(err != nil || info.IsDir(), "program %q is not there: make build", program)
	}
	return errors.Join(problems...)
}

// ErrWrong means that a run was not correct, so that its figures mean nothing.
var ErrWrong = errors.New("the broker did not receive every event once and unchanged")

// wrongError carries the report of a run that was not correct.
type wrongError struct {
	error
	report *Report
}

// Run measures. The report is returned with ErrWrong too: it says what went wrong.
func Run(ctx context.Context, p Params) (report *Report, err error) {
	at := slices.IndexFunc(Modes(), func(m Mode) bool { return m.Name == p.Mode })
	if at < 0 {
		return nil, fmt.Errorf("no such mode: %q", p.Mode)
	}
	mode := Modes()[at]
	p = p.withDefaults(mode)
	if err := p.validate(); err != nil {
		return nil, err
	}
	s := &Session{World: &rig.World{Dir: rig.StateDir("")}}
	defer func() { err = errors.Join(err, s.Close(), os.RemoveAll(s.Dir)) }()
	err = rig.Carry(func() {
		p.Program = rig.Must(filepath.Abs(p.Program))
		s.open(ctx, p)
		report = s.turns(ctx, mode, p)
		report.Server = s.version
	})
	var wrong *wrongError
	if errors.As(err, &wrong) {
		report, err = wrong.report, wrong.error
	}
	return report, err
}

// Session is all runs of one command on one server.
type Session struct {
	*rig.World
	url, version string
	admin        *pgxpool.Pool
	trials       int
}

func (s *Session) open(ctx context.Context, p Params) {
	s.url = p.DatabaseURL
	if s.url == "" {
		p.say("starting PostgreSQL")
		s.url = s.StartPostgres(ctx, devstack.PostgresParams{Dir: s.Dir, Durable: true}).URL("postgres")
	}
	s.admin = s.Pool(ctx, s.url, 2)
	rig.Check(s.admin.QueryRow(ctx, `SHOW server_version`).Scan(&s.version))
}

// turns measures the program, in turn with the one that it is compared with.
func (s *Session) turns(ctx context.Context, m Mode, p Params) *Report {
	if p.Against == "" {
		return m.measure(ctx, s, p)
	}
	other := p
	other.Program = rig.Must(filepath.Abs(p.Against))
	of := func(p Params) func() *Report {
		return func() *Report { p.say("%s", p.Program); return m.measure(ctx, s, p) }
	}
	best := inTurn(p.Rounds, of(p), of(other))
	best[0].Against = best[1]
	return best[0]
}

// inTurn makes runs in turn, each round beginning with another one, and returns the best of each.
func inTurn(rounds int, runs ...func() *Report) []*Report {
	best := make([]*Report, len(runs))
	for round := range rounds {
		for k := range runs {
			i := (round + k) % len(runs)
			best[i] = runs[i]().better(best[i])
		}
	}
	return best
}

// newDatabase creates a scratch database that is dropped with the trial, even one cut short.
func (s *Session) newDatabase(ctx context.Context, t *Trial) {
	name := "outboxctl_bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	at := rig.Must(url.Parse(s.url))
	if !strings.HasPrefix(at.Scheme, "postgres") {
		rig.Check(errors.New("the bench needs its connection string as a URL: postgres://user@host/database"))
	}
	at.Path = "/" + name
	t.url = at.String()
	// Pages touched for the first time after a checkpoint are logged whole. Taking it now lets the
	// emitting pay for that. Who may not, measures a little more.
	_, _ = s.admin.Exec(ctx, `CHECKPOINT`)
	rig.Must(s.admin.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()))
	t.OnClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := s.admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		return err
	})
}

package score

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/outboxtest/poolertest"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// place is one of the surroundings of R23.
type place struct {
	name   string
	around surroundings
	// arrange changes the world before anything happens in it, and says what the processes need for
	// it.
	arrange func(context.Context, *world) (args []string)
	missing string // why it cannot be had here
}

func (s *Session) places() []place {
	clock := func(offset string) surroundings {
		return surroundings{postgresEnv: []string{"LD_PRELOAD=" + s.FakeTime, "FAKETIME=" + offset,
			"FAKETIME_DONT_FAKE_MONOTONIC=1"}}
	}
	noClock, noPooler := "", ""
	if s.FakeTime == "" {
		noClock = "libfaketime is not installed"
	}
	if poolertest.Program() == "" {
		noPooler = "pgbouncer is not installed"
	}
	nothing := func(context.Context, *world) []string { return nil }
	return []place{
		{"plain", surroundings{}, nothing, ""},
		{"pgbouncer", surroundings{}, behindPooler, noPooler},
		{"REPEATABLE READ", surroundings{}, repeatableRead, ""},
		{"clock + 10 min", clock("+600s"), nothing, noClock},
		{"clock − 10 min", clock("-600s"), nothing, noClock},
	}
}

// elsewhere is R23.
func (s *Session) elsewhere(ctx context.Context) result {
	var usual string
	var same, missing, different []string
	for _, p := range s.places() {
		if p.missing != "" {
			s.say("  %s: NOT RUN: %s", p.name, p.missing)
			missing = append(missing, p.name+" ("+p.missing+")")
			continue
		}
		var got string
		s.in(ctx, p.around, func(w *world) result {
			got = w.life(ctx, p.arrange(ctx, w))
			return result{}
		})
		s.say("  %s: %s", p.name, got)
		switch {
		case p.name == "plain":
			usual = got
		case got == usual:
			same = append(same, p.name)
		default:
			different = append(different, p.name+": "+got)
		}
	}
	text := "everywhere " + usual + "; same: " + strings.Join(same, ", ")
	if len(different) > 0 {
		text += "; DIFFERENT: " + strings.Join(different, ", ")
	}
	r := judge(len(different) == 0, true, "%s", text)
	if len(missing) > 0 {
		r.figure += "; not run: " + strings.Join(missing, ", ")
		if r.verdict == Met {
			r.verdict = NotRun
		}
	}
	return r
}

// life is all an event can meet: emitted, published, rejected, its publisher killed, replayed,
// cleaned up.
func (w *world) life(ctx context.Context, args []string) string {
	const n, poisoned = 1000, 10
	cfg := rig.Must(pgxpool.ParseConfig(w.databaseURL))
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool := rig.Must(pgxpool.NewWithConfig(ctx, cfg))
	defer pool.Close()
	publish := append([]string{"--lease", "4s", "--publish-timeout", "2s", "--backoff-base", "100ms"}, args...)
	all := w.publishers(ctx, 2, publish...)
	owner := owner(ctx, all[0])
	w.Broker.Slow(500 * time.Millisecond)
	w.Broker.Drain()
	emitMany(ctx, pool, n, n/poisoned)
	w.Broker.AwaitRequest(ctx)
	all[0].End(ctx, syscall.SIGKILL)
	rig.Pause(ctx, 100*time.Millisecond) // what its last statement did is committed within moments
	inFlight := w.count(ctx, `SELECT count(*) FROM outbox_event_status WHERE locked_by = $1::text::uuid`, owner)
	w.Broker.Slow(0)
	w.settled(ctx, time.Minute)
	dead := w.count(ctx, `SELECT count(*) FROM outbox_dlq WHERE state = 'open'`)
	w.Broker.Heal()
	w.command(ctx, append([]string{"dlq", "replay", "--reason", "rejected_by_broker", "--yes",
		"--note", "scoreboard"}, args...)...)
	w.settled(ctx, time.Minute)
	t := w.tally(ctx)
	w.command(ctx, append([]string{"cleanup", "--older-than", "1ms", "--note", "scoreboard"},
		args...)...)
	left := w.count(ctx, `SELECT count(*) FROM outbox_events`)
	bounded := "at most those in flight"
	if t.duplicates > inFlight {
		bounded = fmt.Sprintf("%d, more than the %d in flight", t.duplicates, inFlight)
	}
	return fmt.Sprintf("%d published, %d of them after a replay, %d lost, duplicates %s, %d left after cleanup", t.events-t.dead-t.lost, dead, t.lost, bounded, left)
}

func repeatableRead(ctx context.Context, w *world) []string {
	rig.Must(w.pool.Exec(ctx, `ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'`))
	w.pool.Reset()
	return nil
}

// behindPooler leads every process through a pgbouncer that lends a connection for one transaction
// at a time.
func behindPooler(ctx context.Context, w *world) []string {
	name := rig.Must(pgx.ParseConfig(w.databaseURL)).Database
	p := rig.Must(poolertest.Start(ctx, w.Postgres, name))
	w.OnClose(p.Stop)
	w.databaseURL = p.URL(w.Postgres)
	return []string{"--exec-mode", "exec"}
}

package score

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// place is one of the surroundings of R23.
type place struct {
	name   string
	around surroundings
	// arrange changes the world before anything happens in it, and says what the processes need for it.
	arrange func(context.Context, *world) (args []string, err error)
	missing string // why it cannot be had here
}

func (s *Session) places() []place {
	clock := func(offset string) surroundings {
		return surroundings{postgresEnv: []string{"LD_PRELOAD=" + s.FakeTime, "FAKETIME=" + offset, "FAKETIME_DONT_FAKE_MONOTONIC=1"}}
	}
	noClock, noPooler := "", ""
	if s.FakeTime == "" {
		noClock = "libfaketime is not installed"
	}
	if pooler() == "" {
		noPooler = "pgbouncer is not installed"
	}
	nothing := func(context.Context, *world) ([]string, error) { return nil, nil }
	return []place{
		{"plain", surroundings{}, nothing, ""},
		{"pgbouncer", surroundings{}, behindPooler, noPooler},
		{"REPEATABLE READ", surroundings{}, repeatableRead, ""},
		{"clock + 10 min", clock("+600s"), nothing, noClock},
		{"clock − 10 min", clock("-600s"), nothing, noClock},
	}
}

// elsewhere is R23.
func (s *Session) elsewhere(ctx context.Context) (result, error) {
	var usual string
	var same, missing, different []string
	for _, p := range s.places() {
		if p.missing != "" {
			s.say("  %s: NOT RUN: %s", p.name, p.missing)
			missing = append(missing, p.name+" ("+p.missing+")")
			continue
		}
		var got string
		_, err := s.in(ctx, p.around, func(w *world) (_ result, err error) {
			args, err := p.arrange(ctx, w)
			if err != nil {
				return result{}, err
			}
			got, err = w.life(ctx, args)
			return result{}, err
		})
		if err != nil {
			return result{}, fmt.Errorf("%s: %w", p.name, err)
		}
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
	return r, nil
}

// life is all an event can meet: emitted, published, rejected, its publisher killed, replayed, cleaned up.
func (w *world) life(ctx context.Context, args []string) (string, error) {
	const n, poisoned = 1000, 10
	cfg, err := pgxpool.ParseConfig(w.databaseURL)
	if err != nil {
		return "", err
	}
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	publish := append([]string{"--lease", "4s", "--publish-timeout", "2s", "--backoff-base", "100ms"}, args...)
	all, err := w.publishers(2, publish...)
	if err != nil {
		return "", err
	}
	if err := ready(ctx, all...); err != nil {
		return "", err
	}
	owner, err := all[0].owner(ctx)
	if err != nil {
		return "", err
	}
	w.broker.set(500 * time.Millisecond)
	drain(w.broker.arrivals)
	if _, err := emitMany(ctx, pool, n, n/poisoned); err != nil {
		return "", err
	}
	if err := w.broker.await(ctx); err != nil {
		return "", err
	}
	if err := all[0].end(ctx, syscall.SIGKILL); err != nil {
		return "", err
	}
	rig.Pause(ctx, 100*time.Millisecond) // what its last statement did is committed within moments
	inFlight, err := w.count(ctx, `SELECT count(*) FROM outbox_events WHERE locked_by = $1::text::uuid AND published_at IS NULL`, owner)
	if err != nil {
		return "", err
	}
	w.broker.set(0)
	if err := w.settled(ctx, time.Minute); err != nil {
		return "", err
	}
	dead, err := w.count(ctx, `SELECT count(*) FROM outbox_dlq WHERE state = 'open'`)
	if err != nil {
		return "", err
	}
	w.broker.heal()
	if _, err := w.command(ctx, append([]string{"dlq", "replay", "--reason", "rejected_by_broker", "--yes", "--note", "scoreboard"}, args...)...); err != nil {
		return "", err
	}
	if err := w.settled(ctx, time.Minute); err != nil {
		return "", err
	}
	t, err := w.tally(ctx)
	if err != nil {
		return "", err
	}
	if _, err := w.command(ctx, append([]string{"cleanup", "--older-than", "1ms", "--note", "scoreboard"}, args...)...); err != nil {
		return "", err
	}
	left, err := w.count(ctx, `SELECT count(*) FROM outbox_events`)
	if err != nil {
		return "", err
	}
	bounded := "at most those in flight"
	if t.duplicates > inFlight {
		bounded = fmt.Sprintf("%d, more than the %d in flight", t.duplicates, inFlight)
	}
	return fmt.Sprintf("%d published, %d of them after a replay, %d lost, duplicates %s, %d left after cleanup", t.events-t.dead-t.lost, dead, t.lost, bounded, left), nil
}

func repeatableRead(ctx context.Context, w *world) ([]string, error) {
	_, err := w.pool.Exec(ctx, `ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'`)
	w.pool.Reset()
	return nil, err
}

// pooler is where pgbouncer is; Debian keeps it off most people's path.
func pooler() string {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// behindPooler leads every process through a pgbouncer that lends a connection for one transaction at a time.
func behindPooler(ctx context.Context, w *world) ([]string, error) {
	port, err := devstack.FreePort()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(w.dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d user=postgres password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
auth_type = any
pool_mode = transaction
default_pool_size = 10
unix_socket_dir =
`, w.postgres.Port(), passwordOf(w.databaseURL), port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	args := []string{"-q", config}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...) // it refuses to be root
	}
	cmd := exec.Command(pooler(), args...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.onClose(func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // killed
		return err
	})
	w.databaseURL = withHost(w.databaseURL, fmt.Sprintf("127.0.0.1:%d", port))
	err = eventually(ctx, 10*time.Second, func() (bool, error) {
		conn, err := pgx.Connect(ctx, w.databaseURL)
		if err != nil {
			return false, nil //nolint:nilerr // not there yet
		}
		return true, conn.Close(ctx)
	})
	return []string{"--exec-mode", "exec"}, errors.Join(err)
}

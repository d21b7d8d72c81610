package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// site is one database with its programs, and what becomes of its events.
type site struct {
	lab      *lab
	url      string
	pool     *pgxpool.Pool
	children []*rig.Child

	mu      sync.Mutex
	written []string
	// seen counts how often each event was published: by outboxctl, and by the job that was there before.
	seen   map[string]int
	jobbed map[string]int
}

func (l *lab) open(ctx context.Context, database string) (*site, error) {
	s := &site{lab: l, url: l.postgres.URL(database), seen: map[string]int{}, jobbed: map[string]int{}}
	admin, err := pgx.Connect(ctx, l.postgres.URL("postgres"))
	if err != nil {
		return nil, err
	}
	_, err = admin.Exec(ctx, "CREATE DATABASE "+database)
	if err = errors.Join(err, admin.Close(ctx)); err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.New(ctx, s.url); err != nil {
		return nil, err
	}
	l.fake.OnPublish(func(_ context.Context, call devstack.PublishCall) devstack.PublishFault {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range call.Messages {
			s.seen[m.GetAttributes()["event_id"]]++
		}
		return devstack.PublishFault{}
	})
	return s, nil
}

// close ends what still runs.
func (s *site) close() error {
	for _, c := range s.children {
		if c.Alive() {
			c.Signal(syscall.SIGKILL)
		}
		<-c.Done
	}
	s.pool.Close()
	s.lab.fake.Forget()
	return nil
}

func (s *site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.lab.program, args...)
	cmd.Dir = s.lab.dir
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.url, "PUBSUB_EMULATOR_HOST="+s.lab.fake.Addr(), "GOOGLE_CLOUD_PROJECT="+s.lab.fake.Project,
		"OUTBOXCTL_STATE_DIR="+s.lab.dir, "OUTBOXCTL_LOG_LEVEL=warn")
	return cmd
}

// outboxctl runs a command to its end.
func (s *site) outboxctl(ctx context.Context, args ...string) (string, error) {
	cmd := s.command(ctx, args...)
	var out, talk strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("outboxctl %s: %w: %s", strings.Join(args, " "), err, talk.String())
	}
	return out.String(), nil
}

// all runs commands one after the other.
func (s *site) all(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if _, err := s.outboxctl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// publish starts a publisher.
func (s *site) publish(ctx context.Context, args ...string) (*rig.Child, error) {
	cmd := s.command(ctx, append([]string{"publish", "--http-addr", ""}, args...)...)
	cmd.Stderr = os.Stderr
	c, err := rig.Start(cmd)
	if err == nil {
		s.children = append(s.children, c)
	}
	return c, err
}

// stop ends a publisher as a deployment does.
func stop(c *rig.Child) {
	c.Signal(syscall.SIGTERM)
	<-c.Done
}

// catalogue writes a catalogue file of these types.
func (s *site) catalogue(name, types string) (string, error) {
	file := filepath.Join(s.lab.dir, name+".yaml")
	return file, os.WriteFile(file, []byte("outbox: 1\nname: shop\ntopics: {orders: shop-orders}\ntypes:\n"+types), 0o600)
}

// writers runs statements that return an event's id, each at the lab's rate, until the returned function is called.
func (s *site) writers(ctx context.Context, statements ...string) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, len(statements))
	for i, statement := range statements {
		running.Go(func() {
			ticker := time.NewTicker(time.Second / time.Duration(s.lab.rate))
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				var id string
				if errs[i] = s.pool.QueryRow(context.WithoutCancel(ctx), statement).Scan(&id); errs[i] != nil {
					return
				}
				s.mu.Lock()
				s.written = append(s.written, id)
				s.mu.Unlock()
			}
		})
	}
	return func() error {
		cancel()
		running.Wait()
		return errors.Join(errs...)
	}
}

// drained waits until nothing waits to be published.
func (s *site) drained(ctx context.Context) error {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		var left int
		if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL`).Scan(&left); err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		if !rig.Pause(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
	return errors.New("events still wait after five minutes")
}

// account compares what was written with what was published.
func (s *site) account(ctx context.Context) error {
	var dead int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM outbox_dlq`).Scan(&dead); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, doubled := s.tally()
	s.lab.say("%d events written: %d published by outboxctl, %d by the job; %d lost, %d doubled, %d dead", len(s.written), len(s.seen), len(s.jobbed), lost, doubled, dead)
	if lost+doubled+dead > 0 {
		return errors.New("an event was lost, doubled or died")
	}
	return nil
}

// tally counts the events that were published nowhere, and those that were more than once.
func (s *site) tally() (lost, doubled int) {
	for _, id := range s.written {
		switch s.seen[id] + s.jobbed[id] {
		case 0:
			lost++
		case 1:
		default:
			doubled++
		}
	}
	return lost, doubled
}

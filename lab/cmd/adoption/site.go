package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// site is one database with its programs, and what becomes of its events.
type site struct {
	lab  *lab
	url  string
	pool *pgxpool.Pool
	// app is the application: its role owns nothing, and may do what it was granted.
	role     string
	app      *pgxpool.Pool
	children []*rig.Process

	mu      sync.Mutex
	written []string
	// seen counts how often each event was published: by outboxctl, and by the job that was there
	// before.
	seen   map[string]int
	jobbed map[string]int
}

func (l *lab) open(ctx context.Context, database string) *site {
	s := &site{lab: l, url: l.CreateDatabase(ctx, l.Postgres, database), seen: map[string]int{},
		jobbed: map[string]int{}}
	s.pool = l.Pool(ctx, s.url, 0)
	s.role = "shop_" + database
	rig.Must(s.pool.Exec(ctx, "CREATE ROLE "+s.role))
	s.app = l.Pool(ctx, s.url+"&options=-c%20role%3D"+s.role, 0)
	l.seen = func(id string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen[id]++
	}
	return s
}

func (s *site) grant(ctx context.Context, what string) {
	rig.Must(s.pool.Exec(ctx, "GRANT "+what+" TO "+s.role))
}

func (s *site) close() {
	for _, c := range s.children {
		c.Signal(syscall.SIGKILL) // it may have ended
		<-c.Done
	}
	s.lab.Broker.Forget()
}

// env is a user's, with the settings that other tools have too.
func (s *site) env() []string {
	return append(os.Environ(), "DATABASE_URL="+s.url, "PUBSUB_EMULATOR_HOST="+s.lab.Broker.Addr(), "GOOGLE_CLOUD_PROJECT="+s.lab.Broker.Project,
		"OUTBOXCTL_STATE_DIR="+s.lab.Dir, "OUTBOXCTL_LOG_LEVEL=warn")
}

func (s *site) outboxctl(ctx context.Context, args ...string) string {
	return s.lab.Outboxctl(ctx, s.env(), args...)
}

func (s *site) publish(args ...string) *rig.Process {
	p := s.lab.Start("publisher", s.env(), s.lab.Program, append([]string{"publish", "--http-addr",
		""}, args...)...)
	s.children = append(s.children, p)
	return p
}

func (s *site) catalogue(name, types string) string {
	file := filepath.Join(s.lab.Dir, name+".yaml")
	rig.Check(os.WriteFile(file, []byte("outbox: 1\nname: shop\ntopics: {orders: shop-orders}\ntypes:\n"+types), 0o600))
	return file
}

// writers runs statements that return an event's id, each at the lab's rate, until the returned
// function is called.
func (s *site) writers(ctx context.Context, statements ...string) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, len(statements))
	for i, statement := range statements {
		running.Go(func() {
			limiter := rate.NewLimiter(rate.Limit(s.lab.rate), 1)
			for limiter.Wait(ctx) == nil {
				var id string
				if errs[i] = s.app.QueryRow(context.WithoutCancel(ctx), statement).Scan(&id); errs[i] != nil {
					return
				}
				s.mu.Lock()
				s.written = append(s.written, id)
				s.mu.Unlock()
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
		rig.Check(errors.Join(errs...))
	}
}

// drained waits until nothing waits to be published, and compares what was written with what was
// published.
func (s *site) drained(ctx context.Context) {
	count := func(query string) (n int) {
		rig.Check(s.pool.QueryRow(ctx, query).Scan(&n))
		return n
	}
	rig.Await(ctx, 5*time.Minute, "the events", func() bool {
		return count(`SELECT count(*) FROM outbox_events WHERE published_at IS NULL AND dead_at IS NULL`) == 0
	})
	dead := count(`SELECT count(*) FROM outbox_dlq`)
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, doubled := s.tally()
	s.lab.say("%d events written: %d published by outboxctl, %d by the job; %d lost, %d doubled, %d dead", len(s.written), len(s.seen), len(s.jobbed), lost, doubled, dead)
	if lost+doubled+dead > 0 {
		rig.Check(errors.New("an event was lost, doubled or died"))
	}
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

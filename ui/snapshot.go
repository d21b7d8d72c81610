package ui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/stats"
)

const (
	snapshotShare = 20 // the figures cost at most a twentieth of one core
	// snapshotPause is the longest wait, and the pace while no page is open.
	snapshotPause = time.Minute
	// snapshotStatements is how many statements of a snapshot may take as long as one may at most.
	snapshotStatements = 12
	// lookedLately is how long ago a request counts as a viewer.
	lookedLately = 2 * time.Minute
	causesKept   = 200
	runsKept     = 20
	hoursShown   = 24
	// perHour is the name of Hours and Handled among the groupings.
	perHour = "hour"
)

// snapshot is the figures of the whole outbox at one moment, the same for every viewer.
type snapshot struct {
	Version int64
	Stats   *stats.Report
	// Causes are the groups of open dead letters by each of dlq.GroupBy.
	Causes  map[string][]dlq.Group
	Running []dlq.Plan
	// Hours are the deaths of each cause that is shown in each of the last 24 hours, the newest hour
	// first; Handled is what was done lately about it.
	Hours   map[string][]int64
	Handled map[string]dlq.Handled
	// History is the last hour, as publishers have counted it.
	History stats.HistoryReport
	// Late are the groupings that took too long, and when those in their place were read, or never.
	Late map[string]time.Time
	// Behind is how far the server that is read is behind the one that is written.
	Behind time.Duration
	Schema migrate.Versions
	// Err is why there are no newer figures.
	Err error
}

type snapshots struct {
	reader      *reader
	refresh     time.Duration
	maxAttempts int
	limit       time.Duration // of one snapshot
	metrics     *metrics

	mu     sync.Mutex
	now    snapshot
	taken  time.Time
	looked time.Time
	wake   chan struct{}
}

func newSnapshots(r *reader, refresh time.Duration, maxAttempts int) *snapshots {
	return &snapshots{
		reader: r, refresh: refresh, maxAttempts: maxAttempts, limit: max(snapshotPause, snapshotStatements*r.timeout),
		wake: make(chan struct{}, 1), looked: time.Now(),
	}
}

// peek returns the newest snapshot to a caller that is no viewer.
func (s *snapshots) peek() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// current returns the newest snapshot to a viewer. Asking for it is what keeps the figures coming.
func (s *snapshots) current() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.looked) > lookedLately {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	s.looked = time.Now()
	return s.now
}

// pauses replaces what is paused by what it has just become.
func (s *snapshots) pauses(held []outbox.HeldPause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Stats == nil {
		return
	}
	figures := *s.now.Stats
	figures.Pauses = held
	s.now.Stats = &figures
	s.now.Version++
}

// age is how many seconds ago the figures were taken; infinite before the first.
func (s *snapshots) age() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken.IsZero() {
		return math.Inf(1)
	}
	return time.Since(s.taken).Seconds()
}

func (s *snapshots) run(ctx context.Context) {
	for {
		began := time.Now()
		next, err := s.take(ctx)
		if ctx.Err() != nil {
			return
		}
		s.metrics.taken(time.Since(began), err)
		s.keep(next, err)
		s.mu.Lock()
		pause := min(max(s.refresh, snapshotShare*time.Since(began)), snapshotPause)
		switch {
		case err != nil:
			pause = s.refresh // to ask a server that does not answer costs nothing
		case time.Since(s.looked) > lookedLately:
			pause = snapshotPause
		}
		s.mu.Unlock()
		if s.rest(ctx, pause); ctx.Err() != nil {
			return
		}
	}
}

// rest waits until the next snapshot is due or a viewer comes back, or until the database is gone:
// that is told at the pace of the figures, however seldom these are taken.
func (s *snapshots) rest(ctx context.Context, pause time.Duration) {
	due, look := time.NewTimer(pause), time.NewTicker(s.refresh)
	defer due.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			return
		case <-due.C:
			return
		case <-look.C:
			if s.gone(ctx) {
				return
			}
		}
	}
}

// gone reports whether the database does not answer any more. One that is busy is not gone; one is
// not asked while no page is open.
func (s *snapshots) gone(ctx context.Context) bool {
	s.mu.Lock()
	unwatched := s.now.Err != nil || time.Since(s.looked) > lookedLately
	s.mu.Unlock()
	if unwatched {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.refresh)
	defer cancel()
	err := s.reader.pool.Ping(ctx)
	return err != nil && ctx.Err() == nil
}

// take reads the figures, and gives up after a time: the server ends a statement that takes too
// long, but not one whose answer is lost on the way.
func (s *snapshots) take(ctx context.Context) (next snapshot, err error) {
	next.Causes, next.Late = map[string][]dlq.Group{}, map[string]time.Time{}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	err = s.reader.doOn(ctx, s.reader.pool, func(o *dlq.Outbox, _ time.Time) error {
		if err := s.reader.learn(ctx, o); err != nil {
			return err
		}
		// A page that may not read the version does without it.
		_ = part(ctx, o, func(o *dlq.Outbox) (err error) {
			next.Schema, err = migrate.Version(ctx, o.DB, migrate.Options{})
			return err
		})
		if next.Stats, err = stats.Collect(ctx, o.DB, o.Registry, stats.Params{MaxAttempts: s.maxAttempts, By: "topic"}); err != nil {
			return err
		}
		if next.History, err = stats.History(ctx, o.DB, next.Stats.At, stats.HistoryParams{Span: "1h", NoTypes: true}); err != nil {
			return err
		}
		for _, by := range dlq.GroupBy() {
			err := next.try(ctx, o, by, func(o *dlq.Outbox) error {
				r, err := o.GroupDeadLetters(ctx, dlq.GroupParams{Filter: dlq.Filter{State: dlq.StateOpen}, By: by, Limit: causesKept})
				next.Causes[by] = r.Groups
				return err
			})
			if err != nil {
				return err
			}
		}
		if next.Behind, err = pgread.Behind(ctx, o.DB); err != nil {
			return err
		}
		err = next.try(ctx, o, perHour, func(o *dlq.Outbox) (err error) {
			var causes []string
			for _, g := range next.Causes["fingerprint"] {
				causes = append(causes, g.Value)
			}
			if next.Hours, err = o.DeathsPerHour(ctx, hoursShown, causes); err != nil {
				return err
			}
			next.Handled, err = o.HandledCauses(ctx, causes)
			return err
		})
		if err != nil {
			return err
		}
		_, err = o.ListPlans(ctx, dlq.ListPlansParams{Running: true, Page: outbox.Page{Limit: runsKept}}, func(p dlq.Plan) error {
			if p.State == dlq.PlanRunning {
				next.Running = append(next.Running, p)
			}
			return nil
		})
		return err
	})
	if err != nil && ctx.Err() != nil { // which what came after it does not say
		err = fmt.Errorf("read the figures: %w", ctx.Err())
	}
	return next, fault.Database(err)
}

// try reads one grouping in a part of o's transaction: when it takes too long, the others remain.
func (s *snapshot) try(ctx context.Context, o *dlq.Outbox, grouping string, read func(*dlq.Outbox) error) error {
	err := part(ctx, o, read)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && slices.Contains([]string{pgerrcode.QueryCanceled, pgerrcode.LockNotAvailable}, pg.Code) && ctx.Err() == nil {
		s.Late[grouping] = time.Time{}
		return nil
	}
	return err
}

// standIn takes from an earlier snapshot what took too long in s.
func (s *snapshot) standIn(earlier snapshot) {
	for grouping := range s.Late {
		at, late := earlier.Late[grouping]
		if !late && earlier.Stats != nil {
			at = earlier.Stats.At
		}
		s.Late[grouping] = at
		if grouping == perHour {
			s.Hours, s.Handled = earlier.Hours, earlier.Handled
		} else {
			s.Causes[grouping] = earlier.Causes[grouping]
		}
	}
}

// keep replaces the snapshot; after an error the last figures stay, with their age.
func (s *snapshots) keep(next snapshot, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next.Version = s.now.Version + 1
	if err != nil {
		next.Stats, next.Causes, next.Running, next.History, next.Err = s.now.Stats, s.now.Causes, s.now.Running, s.now.History, err
		next.Hours, next.Handled, next.Late = s.now.Hours, s.now.Handled, s.now.Late
		s.now = next
		return
	}
	next.standIn(s.now)
	s.taken = time.Now()
	s.now = next
}

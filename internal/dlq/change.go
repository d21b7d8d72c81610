package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// ChangeParams names a change and the rows it is made to: by ids, by one of the filters, or by the
// run to be undone, and only one of them.
type ChangeParams struct {
	Action Action
	// IDs may be dead letters' or events'.
	IDs []string
	// DeadLetters chooses what to replay, discard or restore.
	DeadLetters *Filter
	// Events chooses what to republish, retry or erase.
	Events *outbox.Filter
	// Discard erases also what waits to be published.
	Discard bool
	// Undo is a run whose discards or restores are to be taken back, where they are as it left them.
	Undo *AuditRunResult
	// Actor and Note go to the audit row.
	Actor, Note string
}

// What is wrong with params that do not choose one set of rows.
var (
	ErrNoSet       = errors.New("specify the rows")
	ErrSeveralSets = errors.New("specify the rows in one way")
)

// Check reports whether exactly one of ids, a filter and a run chooses the rows: ErrNoSet or
// ErrSeveralSets when not. Nothing is opened for it.
func (p ChangeParams) Check() error {
	sets := 0
	for _, given := range []bool{len(p.IDs) > 0, p.DeadLetters != nil, p.Events != nil, p.Undo != nil} {
		if given {
			sets++
		}
	}
	switch {
	case sets == 0:
		return fault.As(fault.Usage, ErrNoSet)
	case sets > 1:
		return fault.As(fault.Usage, ErrSeveralSets)
	}
	return nil
}

// A ChangeSet is the rows a change will be made to, chosen and described but not touched.
type ChangeSet struct {
	Action Action
	Total  int64
	// Database is where the rows are.
	Database Identity
	// Reasons and Causes describe dead letters chosen by a filter.
	Reasons, Causes []Group
	// Letters and Events are the first few rows of a set chosen by ids.
	Letters []Entry
	Events  []outbox.Event
	// First and Last are the ends of a set of events chosen by a filter.
	First, Last *Target
	OrderEffects

	params  ChangeParams
	outbox  *Outbox
	open    func(context.Context) (Source, error)
	filter  *Filter          // what the plan and the audit row keep of it; nil: ids chose the rows
	reasons map[string]int64 // why the dead letters died that are to be replayed
}

const (
	sampleRows   = 5
	causesShown  = 5
	reasonsShown = 1000
)

// ChooseChange finds and describes the rows of a change. It changes nothing.
func (o *Outbox) ChooseChange(ctx context.Context, p ChangeParams) (*ChangeSet, error) {
	s, err := o.aim(ctx, p)
	switch {
	case err != nil:
	case len(p.IDs) > 0 || p.Undo != nil:
		err = s.describeIDs(ctx)
	case p.DeadLetters != nil:
		err = s.describeDeadLetters(ctx)
	default:
		err = s.describeEvents(ctx)
	}
	if err == nil {
		err = s.addOrderEffects(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// aim makes the set of a change without looking at its rows.
func (o *Outbox) aim(ctx context.Context, p ChangeParams) (*ChangeSet, error) {
	err := p.Check()
	if err != nil {
		return nil, err
	}
	s := &ChangeSet{Action: p.Action, params: p, outbox: o, reasons: map[string]int64{}}
	if s.Database, err = o.Identity(ctx); err != nil {
		return nil, err
	}
	switch {
	case len(p.IDs) > 0:
		s.params.IDs, err = o.CompleteAll(ctx, p.IDs)
		s.open = func(ctx context.Context) (Source, error) { return o.Named(ctx, p.Action, s.params.IDs), nil }
	case p.Undo != nil:
		s.open = func(ctx context.Context) (Source, error) { return o.changedBy(ctx, p.Undo.Run, p.Undo.Last), nil }
	default:
		err = s.aimFilter(ctx)
	}
	return s, err
}

// aimFilter aims at the rows of a filter. The set ends now unless it ends before: what dies or is
// published again meanwhile must not enter it.
func (s *ChangeSet) aimFilter(ctx context.Context) error {
	onEvents := s.params.DeadLetters == nil
	filter := *cmp.Or(s.params.DeadLetters, s.params.Events)
	if onEvents {
		if err := s.outbox.AddTopics(&filter); err != nil {
			return err
		}
	}
	if err := s.outbox.SettleAggregate(ctx, &filter); err != nil {
		return err
	}
	now, err := s.outbox.Now(ctx)
	if err != nil {
		return err
	}
	if filter.Until.IsZero() || filter.Until.After(now) {
		filter.Until = now
	}
	s.filter = &filter
	s.open = func(ctx context.Context) (Source, error) {
		switch {
		case s.Action == Erase:
			return s.outbox.erasable(ctx, filter)
		case onEvents:
			scan, err := s.outbox.ScanEvents(filter, outbox.OldestFirst, s.Action == Republish)
			return scanned(ctx, scan), err
		}
		scan, err := s.outbox.ScanDeadLetters(filter, outbox.OldestFirst)
		return scanned(ctx, scan), err
	}
	return nil
}

// addOrderEffects looks at what waits behind the chosen events in their ordering keys.
func (s *ChangeSet) addOrderEffects(ctx context.Context) (err error) {
	s.OrderEffects, err = s.outbox.effects(ctx, s.Action, namedEvents, func() (any, error) {
		var events []string
		err := s.each(ctx, func(targets []Target) error {
			for _, t := range targets {
				if t.ID != "" {
					events = append(events, t.EventID)
				}
			}
			return nil
		})
		return events, err
	})
	return err
}

func (s *ChangeSet) describeIDs(ctx context.Context) error {
	var known []string
	err := s.each(ctx, func(targets []Target) error {
		s.Total += int64(len(targets)) // not ids: a dead letter's own and its event's are one
		found := idsOf(slices.DeleteFunc(targets, func(t Target) bool { return t.ID == "" }))
		known = append(known, found...)
		return s.countReasons(ctx, found)
	})
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return fault.Hint(fault.NotFoundf("not found: %s", words.Counted(s.Total, "id")), "outboxctl why ID tells what became of an event")
	}
	s.Letters, s.Events, err = s.outbox.sample(ctx, s.Action, known)
	return err
}

func (s *ChangeSet) describeDeadLetters(ctx context.Context) (err error) {
	if s.Reasons, err = s.outbox.Groups(ctx, *s.filter, "reason", reasonsShown); err != nil {
		return err
	}
	for _, g := range s.Reasons {
		s.Total += g.Count
		s.reasons[g.Value] = g.Count
	}
	if s.Total > 0 {
		s.Causes, err = s.outbox.Groups(ctx, *s.filter, "fingerprint", causesShown)
	}
	return err
}

// describeEvents counts by walking: the set has no index that could count it, and short steps spare
// the server.
func (s *ChangeSet) describeEvents(ctx context.Context) error {
	return s.each(ctx, func(targets []Target) error {
		if s.First == nil {
			s.First = &targets[0]
		}
		s.Last = &targets[len(targets)-1]
		s.Total += int64(len(targets))
		return nil
	})
}

// sample reads the first few rows that an action is done to.
func (o *Outbox) sample(ctx context.Context, action Action, ids []string) (letters []Entry, events []outbox.Event, err error) {
	ids = ids[:min(sampleRows, len(ids))]
	if action.OnEvents() {
		events, err = o.Events(ctx, ids)
	} else {
		letters, err = o.Entries(ctx, ids)
	}
	return letters, events, err
}

// each walks over the whole set in chunks.
func (s *ChangeSet) each(ctx context.Context, do func([]Target) error) error {
	source, err := s.open(ctx)
	if err != nil {
		return err
	}
	for targets, err := range source {
		if err == nil {
			err = do(targets)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// countReasons adds why dead letters died.
func (s *ChangeSet) countReasons(ctx context.Context, ids []string) error {
	if s.Action != Replay {
		return nil
	}
	counts, err := outbox.Rows[struct {
		Reason string
		N      int64
	}](ctx, s.outbox.DB, "count dead letters by reason", countReasons, ids)
	for _, c := range counts {
		s.reasons[c.Reason] += c.N
	}
	return err
}

// RefuseHopeless returns the error for a replay of dead letters that would fail again; nil when
// there are none.
func (s *ChangeSet) RefuseHopeless() error { return refuseHopeless(s.Action, s.reasons, s.Total) }

// refuseHopeless is the error for a change to so many rows that is a replay of some that would fail
// again, by why they died.
func refuseHopeless(action Action, reasons map[string]int64, of int64) error {
	var total int64
	var hopeless []string
	for _, reason := range HopelessReasons() {
		if n := reasons[reason]; n > 0 && action == Replay {
			total += n
			hopeless = append(hopeless, fmt.Sprintf("%s %s", words.Count(n), reason))
		}
	}
	if total == 0 {
		return nil
	}
	which := fmt.Sprintf("%s of %s", words.Count(total), words.Counted(of, action.Noun()))
	if of == 1 {
		which = "the " + action.Noun()
	}
	return fault.Hint(fault.Refusedf("%s would fail again unchanged: %s", which, strings.Join(hopeless, ", ")),
		"outboxctl dlq edit corrects one; outboxctl dlq export writes many for correction and outboxctl emit --stdin sends the corrected events; --force replays them as they are, after the event type or the publisher was corrected")
}

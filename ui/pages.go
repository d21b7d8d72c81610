package ui

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/why"
	"github.com/outboxctl/outboxctl/internal/words"
)

const causesOnOverview = 5

// trouble is something that is wrong now, and what to do about it.
type trouble struct {
	Text, Remedy string
	Bad          bool
	To           string // a page about it
}

// troubles reads from the figures what needs an operator.
func troubles(s *stats.Report) []trouble {
	var found []trouble
	if len(s.Publishers) == 0 {
		text := "No publisher is alive"
		if s.Backlog > 0 {
			text += "; waiting: " + words.Counted(s.Backlog, "event")
		}
		found = append(found, trouble{Text: text + ".", Remedy: "outboxctl publish", Bad: s.Backlog > 0})
	}
	for _, t := range s.Topics {
		text := fmt.Sprintf("Topic %s has been %s for %s at %s: %s", t.Topic, t.State, words.Seconds(t.OutageSeconds(s.At)), t.Publisher, t.Error)
		found = append(found, trouble{Text: text, Remedy: "outboxctl topic list", Bad: true, To: "/topics"})
	}
	for _, p := range s.Pauses {
		text := fmt.Sprintf("Paused by %s %s: %s %s; waiting: %s.", p.Actor, outbox.PauseEnds(s.At, p.Until), p.Kind, p.Value, words.Counted(p.Events, "event"))
		found = append(found, trouble{Text: text, Remedy: "outboxctl resume --" + p.Kind + " " + safetext.QuoteWord(p.Value), To: "/topics"})
	}
	for _, t := range s.Stranded {
		text := fmt.Sprintf("No publisher takes %s; waiting: %s, the oldest for %s.", t.Name(), words.Counted(t.Events, "event"), words.Seconds(s.At.Sub(t.OldestAt).Seconds()))
		found = append(found, trouble{Text: text, Remedy: "outboxctl doctor", Bad: true, To: "/doctor"})
	}
	if s.BlockedKeys > 0 {
		text := fmt.Sprintf("Blocked by a dead event: %s; parked behind it: %s", words.Counted(s.BlockedKeys, "ordering key"), words.Counted(s.Parked, "event"))
		if s.OldestParkedAt != nil {
			text += ", the oldest for " + words.Seconds(s.At.Sub(*s.OldestParkedAt).Seconds())
		}
		found = append(found, trouble{Text: text + ".", Remedy: "outboxctl dlq list --blocking", Bad: true, To: "/dead-letters?blocking=true"})
	}
	if s.Flow.State == stats.FlowNotShrinking && len(s.Publishers) > 0 && s.OldestAgeSeconds > 60 {
		found = append(found, trouble{
			Text: fmt.Sprintf("The backlog does not shrink: %.1f/s in, %.1f/s out, the oldest has waited for %s.",
				s.Flow.ArrivalPerSecond, s.Flow.DrainPerSecond, words.Seconds(s.OldestAgeSeconds)), Remedy: "outboxctl stats --by topic", Bad: true, To: "/topics",
		})
	}
	for _, c := range s.Consumers {
		if c.GaveUp > 0 {
			found = append(found, trouble{
				Text: fmt.Sprintf("Consumer %s gave up %s.", c.Consumer, words.Counted(c.GaveUp, "event")), Remedy: "outboxctl consumer failures " + c.Consumer,
				Bad: true, To: "/consumers?consumer=" + url.QueryEscape(c.Consumer),
			})
		}
	}
	if s.DLQ.Open > 0 {
		found = append(found, trouble{Text: "Waiting for a decision: " + words.Counted(s.DLQ.Open, "open dead letter") + ".", Remedy: "outboxctl dlq list --group-by fingerprint", To: "/causes"})
	}
	return found
}

// behindAllowed is how far a replica may be behind before the page says so.
const behindAllowed = 10 * time.Second

// whyOld returns the reason for old figures; nil: there are.
func whyOld(s snapshot) *trouble {
	switch err := s.Err; {
	case s.Schema.Database > s.Schema.Binary:
		return &trouble{Text: fmt.Sprintf("The schema is at version %d, this page knows %d: what is new is not shown.", s.Schema.Database, s.Schema.Binary), Remedy: "Start the page with the version of outboxctl that migrated the database."}
	case err == nil && s.Behind > behindAllowed:
		return &trouble{Text: fmt.Sprintf("The replica that this page reads is %s behind.", span(s.Behind)), Remedy: "What is shown is as old as that; plans are read where they are written."}
	case err == nil:
		return nil
	case statusOf(err) == http.StatusServiceUnavailable:
		return &trouble{Text: "The database does not answer."}
	default:
		return &trouble{Text: safetext.Redact(err.Error()), Remedy: fault.HintOf(err)}
	}
}

type overviewData struct {
	Troubles   []trouble
	Causes     []dlq.Group // the largest
	CauseCount int
	// CausesLate: newer causes took too long. CausesAt is when these were read; zero: there are none.
	CausesLate             bool
	CausesAt               time.Time
	Dead, In, Latency, Out plot
	Recent                 []stats.HistoryStep
	Died                   int64  // in the hour of the charts
	Parked                 string // how long the oldest has waited
}

func overviewPage(r *request) (*view, error) {
	v := &view{Title: "Overview", Command: "outboxctl stats", Live: true, template: "overview"}
	s := r.snapshot
	if s.Stats == nil {
		v.Data = overviewData{}
		return v, nil
	}
	d := overviewData{Troubles: troubles(s.Stats), Causes: s.Causes["fingerprint"], CauseCount: len(s.Causes["fingerprint"])}
	d.CausesAt, d.CausesLate = s.Late["fingerprint"]
	d.Causes = d.Causes[:min(causesOnOverview, len(d.Causes))]
	d.Dead = newPlot("Died per minute", s.History, wholeWords, "dead")
	d.In = newPlot("Came in per minute", s.History, wholeWords, "in")
	d.Latency = newPlot("Latency, p99", s.History, latencyWords, "p99")
	d.Out = newPlot("Published per minute", s.History, wholeWords, "out")
	d.Recent = eventful(s.History)
	for _, step := range s.History.Steps {
		d.Died += step.Dead
	}
	if at := s.Stats.OldestParkedAt; at != nil {
		d.Parked = words.Seconds(s.Stats.At.Sub(*at).Seconds())
	}
	v.Data = d
	return v, nil
}

type causesData struct {
	By    string
	Hours map[string]hourChart
	// Handled is what was done lately about a cause, in words.
	Handled map[string]string
	Ways    []string
	Groups  []dlq.Group
	// Late: newer figures took too long. ReadAt is when these were read; zero: there are none.
	Late   bool
	ReadAt time.Time
}

func causesPage(r *request) (*view, error) {
	by := one(r.URL.Query(), "by", "fingerprint")
	if !slices.Contains(dlq.GroupBy(), by) {
		return nil, fault.Usagef("by: %q is not one of %s", by, strings.Join(dlq.GroupBy(), ", "))
	}
	d := causesData{By: by, Ways: dlq.GroupBy(), Groups: r.snapshot.Causes[by]}
	d.ReadAt, d.Late = r.snapshot.Late[by]
	if by == "fingerprint" {
		d.Hours, d.Handled = hourCharts(r.snapshot.Hours), map[string]string{}
		for cause, h := range r.snapshot.Handled {
			d.Handled[cause] = handledWords(h)
		}
	}
	return &view{Title: "Causes", Command: "outboxctl dlq list --group-by " + by, template: "causes", Data: d}, nil
}

// Remedy is what is offered for a cause; of what only shares a type or a topic nothing is known.
func (d causesData) Remedy(g dlq.Group) remedy {
	if d.By != "fingerprint" && d.By != "reason" {
		return remedyOf(dlq.StateOpen, "", nil)
	}
	r := remedyOf(dlq.StateOpen, g.SampleReason, nil)
	if g.SampleReason == string(outbox.ReasonUnknownEventType) {
		r.Hopeless, r.Editable = true, false
	}
	return r
}

// handledWords describes what was done about a cause and what came of it.
func handledWords(h dlq.Handled) string {
	var said []string
	if h.Replayed > 0 {
		again := "none died again"
		if h.DiedAgain > 0 {
			again = words.Count(h.DiedAgain) + " died again"
		}
		said = append(said, fmt.Sprintf("%s replayed, %s", words.Count(h.Replayed), again))
	}
	if h.Discarded > 0 {
		said = append(said, words.Count(h.Discarded)+" discarded")
	}
	if h.Actor != "" {
		said = append(said, "last by "+h.Actor)
	}
	return strings.Join(said, "; ")
}

// listData is a list with its filters.
type listData struct {
	Letters []dlq.Entry
	Events  []outbox.Event
	Audit   []dlq.AuditRun
	Plans   []dlq.Plan
	// Tabs are the states of the list; Next and Previous are addresses of pages.
	Tabs           []tab
	Next, Previous string
	// Looked is after how many rows a search was cut short; Next goes on from there.
	Looked int64
	// Count is how many rows match, in words. Newer is the address of the list as it will be.
	Count, Newer string
	// Link is the address that shows the same rows at another time.
	Link string
	// Chips are the filters in use, each with the address without it.
	Chips                  []chip
	Types, Reasons, Topics []string
	Values                 map[string]string
	Actions                []string
	changeable

	since, until time.Time
}

type tab struct {
	Name, To string
	Current  bool
}

type chip struct{ Name, Value, Without string }

// newList begins the data of a list that was read up to paged.
func newList(r *request, path string, names []string, paged outbox.Paged) (listData, error) {
	q := r.URL.Query()
	d := listData{Values: map[string]string{}, Reasons: outbox.DeadReasons(), Types: r.outbox.Registry.EventTypes(), Topics: r.outbox.Registry.TopicNames(), Actions: dlq.AuditActions()}
	for _, name := range names {
		d.Values[name] = one(q, name, "")
		if name == "state" || name == "status" {
			continue
		}
		for _, value := range values(q, name) {
			d.Chips = append(d.Chips, chip{name, value, path + "?" + with(q, name, "")})
		}
	}
	d.Looked = int64(paged.Looked)
	d.addPages(path, q, paged.Next)
	var err error
	if d.since, d.until, err = outbox.ParseSpan(one(q, "since", ""), one(q, "until", ""), r.now); err != nil {
		return d, fault.As(fault.Usage, err)
	}
	d.Link = fixed(path, q, d.since, d.until)
	return d, nil
}

func (d *listData) addTabs(path string, q url.Values, name, absent string, states ...string) {
	for _, state := range states {
		value := state
		if state == absent {
			value = ""
		}
		d.Tabs = append(d.Tabs, tab{state, path + "?" + with(q, name, value), one(q, name, absent) == state})
	}
}

// addPages adds the addresses of the next page and of the one before. A list goes one way only, so
// an address has the cursors of all pages up to its own.
func (d *listData) addPages(path string, q url.Values, next string) {
	q, cursors := maps.Clone(q), q["cursor"]
	if len(cursors) > 0 {
		q["cursor"] = cursors[:len(cursors)-1]
		d.Previous = path + "?" + q.Encode()
	}
	if next != "" {
		q["cursor"] = append(slices.Clone(cursors), next)
		d.Next = path + "?" + q.Encode()
	}
}

func deadLettersPage(r *request) (*view, error) {
	q := r.URL.Query()
	rows, paged, err := list(r, deadLetterFilter, func(f dlq.Filter, page outbox.Page, each func(dlq.Entry) error) (outbox.Paged, error) {
		page.LookAt, page.LookFor = r.h.searchRows, searchTime
		return r.outbox.ListDeadLetters(r.Context(), outbox.ListParams{Filter: f, Page: page}, each)
	})
	if err != nil {
		return nil, err
	}
	d, err := newList(r, "/dead-letters", deadLetterNames(), paged)
	if err != nil {
		return nil, err
	}
	d.Letters = rows
	if d.Count, err = countDeadLetters(r); err != nil {
		return nil, err
	}
	if one(q, "cursor", "") == "" && one(q, "until", "") == "" {
		d.Newer = "/dead-letters?" + q.Encode()
	}
	d.addTabs("/dead-letters", q, "state", dlq.StateOpen, dlq.StateOpen, dlq.StateReplayed, dlq.StateDiscarded, "all")
	d.offer(one(q, "state", dlq.StateOpen), r.now)
	return &view{Title: "Dead letters", Command: command("outboxctl dlq list", q, deadLetterNames()), template: "dead_letters", Data: d}, nil
}

func eventsPage(r *request) (*view, error) {
	q := r.URL.Query()
	rows, paged, err := list(r, eventFilter, func(f outbox.Filter, page outbox.Page, each func(outbox.Event) error) (outbox.Paged, error) {
		return r.outbox.ListEvents(r.Context(), outbox.ListParams{Filter: f, Page: page}, each)
	})
	if err != nil {
		return nil, err
	}
	d, err := newList(r, "/events", eventNames(), paged)
	if err != nil {
		return nil, err
	}
	if d.Events, err = withParked(r, rows); err != nil {
		return nil, err
	}
	d.addTabs("/events", q, "status", "all", append([]string{"all"}, outbox.Statuses()...)...)
	d.offer(one(q, "status", ""), r.now)
	return &view{Title: "Events", Command: command("outboxctl event list", q, eventNames()), template: "events", Data: d}, nil
}

// withParked gives the events that wait behind a dead one the status of that, for a page to show.
func withParked(r *request, rows []outbox.Event) ([]outbox.Event, error) {
	parked, err := r.outbox.Parked(r.Context(), rows)
	for i, e := range rows {
		if slices.Contains(parked, e.ID) {
			rows[i].Status = why.Parked
		}
	}
	return rows, err
}

func plansPage(r *request) (*view, error) {
	all := func(url.Values, time.Time) (struct{}, error) { return struct{}{}, nil }
	rows, paged, err := list(r, all, func(_ struct{}, page outbox.Page, each func(dlq.Plan) error) (outbox.Paged, error) {
		return r.outbox.ListPlans(r.Context(), dlq.ListPlansParams{Page: page}, each)
	})
	if err != nil {
		return nil, err
	}
	d, err := newList(r, "/plans", nil, paged)
	d.Plans = rows
	return &view{Title: "Plans", Command: "outboxctl plan list", template: "plans", Data: d}, err
}
